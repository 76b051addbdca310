import '../../helpers/realm.ts';
import { checkRuleFiles } from '../../../src/engine/rules/reload/load.ts';
import { type CandidateOptions, candidateOperations } from '../../../src/operate/admin/candidate-operations.ts';
import { CandidateBook } from '../../../src/operate/candidate/book.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { rulesFrom } from '../../helpers/rules.ts';

/** Rules with a level of patterns, all of which are compared with each other. */
const patterns = (name: string, count: number): string =>
  `domain: demo\ndescriptors:\n${Array.from({ length: count }, (_, at) => `  - { key: path, value: "*${name}${at}*", rate_limit: { unit: minute, requests_per_unit: 1 } }\n`).join('')}`;

/** Returns a function that calls the operation that compares. */
function comparing(live: string, candidateText: string): () => Promise<unknown> {
  const candidate = new CandidateBook({
    clock: fakeClock(),
    pollIntervalMs: 1_000,
    source: undefined,
    overlay: () => [],
    every: () => () => {},
    check: (files) => checkRuleFiles(files, { mergeDomains: false }),
    onState: () => {},
  });
  candidate.start();
  candidate.load({ text: candidateText, by: 'anna', reason: 'a test' });
  const rules = rulesFrom(live);
  const options = { candidate, rules: () => rules, split: undefined } as unknown as CandidateOptions; // the only properties that are read
  const found = candidateOperations(options).find(({ path }) => path === '/api/v1/candidate/diff');
  if (!found) throw new Error('there is no such operation');
  return async () => found.answer({ query: {} } as Parameters<typeof found.answer>[0]);
}

test('a comparison lists the added and the removed rules', async () => {
  const compare = comparing(patterns('a', 200), patterns('b', 200));
  expect(await compare()).toMatchObject({ added: { length: 200 }, removed: { length: 200 } });
});

test('a comparison of too many rules is refused, and a later one is not', async () => {
  const compare = comparing(patterns('a', 1), patterns('b', 1_000));
  await expect(compare()).rejects.toMatchObject({ status: 413, message: expect.stringContaining('use weir diff') });
  await expect(compare()).rejects.toMatchObject({ status: 413 });
});
