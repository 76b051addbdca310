import fc from '../helpers/property.ts';

/**
 * One change of a text: `length` characters at `at` (a fraction of the text's length) are replaced by `by`, or by
 * another part of it.
 */
interface Mutation {
  readonly at: number;
  readonly length: number;
  readonly by: string | { readonly from: number };
}

const position = fc.double({ min: 0, max: 1, noNaN: true });

const anyMutation = (pieces: readonly string[]): fc.Arbitrary<Mutation> =>
  fc.record({
    at: position,
    length: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 })),
    by: fc.oneof(
      fc.constantFrom('', ...pieces),
      fc.record({ from: position }),
      fc.string({ unit: 'binary', maxLength: 10 }),
    ),
  });

/**
 * Nearly valid texts: one of `texts` with a few changes.
 *
 * @param pieces  texts with a meaning in the language, which are inserted
 */
export const anyMutated = (texts: readonly string[], pieces: readonly string[]): fc.Arbitrary<string> =>
  fc
    .record({
      text: fc.constantFrom(...texts),
      mutations: fc.array(anyMutation(pieces), { minLength: 1, maxLength: 8 }),
    })
    .map(({ text, mutations }) => mutations.reduce(mutate, text));

function mutate(text: string, { at, length, by }: Mutation): string {
  const start = Math.floor(at * text.length);
  const put = typeof by === 'string' ? by : text.substr(Math.floor(by.from * text.length), length);
  return text.slice(0, start) + put + text.slice(start + length);
}
