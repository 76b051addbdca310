import '../../../helpers/realm.ts';
import { Readable } from 'node:stream';
import { readLines } from '../../../../src/parts/replay/input.ts';
import fc from '../../../helpers/property.ts';

async function* pieces(octets: Uint8Array, ends: readonly number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const end of ends.toSorted((one, other) => one - other)) {
    yield octets.subarray(from, end);
    from = Math.min(end, octets.length);
  }
  yield octets.subarray(from);
}

async function linesIn(octets: Uint8Array, ends: readonly number[] = []): Promise<readonly string[]> {
  const open = (): Readable => Readable.from(pieces(octets, ends), { objectMode: false });
  const lines: string[] = [];
  for await (const some of readLines({ name: 'lines', bytes: undefined, open })) lines.push(...some);
  return lines;
}

test('lines are the same for any octets and any split', async () => {
  const octets = fc
    .array(fc.oneof(fc.constantFrom(...Buffer.from('\n\r\n{é€😀\ufeff')), fc.integer({ min: 0, max: 255 })), {
      maxLength: 60,
    })
    .filter(([first]) => first !== 0x1f && first !== 0x28); // it would be decompressed
  await fc.assert(
    fc.asyncProperty(octets, fc.array(fc.nat(60), { maxLength: 8 }), async (numbers, ends) => {
      const bytes = Uint8Array.from(numbers);
      const text = new TextDecoder().decode(bytes); // it drops a byte order mark
      const expected = text.split('\n').map((line) => line.replace(/\r$/, ''));
      if (text === '' || text.endsWith('\n')) expected.pop();
      expect(await linesIn(bytes, ends)).toEqual(expected);
    }),
    { numRuns: 1_000 },
  );
});

test.each(['a', '€', '😀'])(
  'a line of more than a million characters %s is cut, and the next one is complete',
  async (one) => {
    const octets = Buffer.from(`${one.repeat(1_100_000)}\nnext`);
    const ends = Array.from({ length: 80 }, (_, at) => (at + 1) * 65_536 - 1);
    const cut = one.repeat(1_100_000).slice(0, 1_048_576);
    for (const some of [[], ends]) {
      const lines = await linesIn(octets, some);
      expect(lines).toHaveLength(2);
      expect(lines[0] === cut).toBe(true);
      expect(lines[1]).toBe('next');
    }
  },
);
