import '../../helpers/realm.ts';
import type { FileChecker } from '../../../src/engine/rules/reload/book.ts';
import { createFileChecker } from '../../../src/engine/rules/reload/load.ts';
import { type CandidateOptions, candidateOperations } from '../../../src/operate/admin/candidate-operations.ts';
import { CandidateBook } from '../../../src/operate/candidate/book.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { rulesFrom } from '../../helpers/rules.ts';

/** Rules with a level of patterns, all of which are compared with each other. */
const patterns = (name: string, count: number): string =>
  `domain: demo\ndescriptors:\n${Array.from({ length: count }, (_, at) => `  - { key: path, value: "*${name}${at}*", rate_limit: { unit: minute, requests_per_unit: 1 } }\n`).join('')}`;

/** Returns a function that calls the operation that compares. */
async function comparing(live: string, candidateText: string): Promise<() => Promise<unknown>> {
  const check = createFileChecker({ mergeDomains: false });
  const checker: FileChecker = { do: async (files, overlay) => check(files, overlay), close: () => {} };
  const candidate = new CandidateBook({
    ...{ clock: fakeClock(), pollIntervalMs: 1_000, source: undefined, overlay: () => [], every: () => () => {} },
    ...{ checker, textChecker: checker, onState: () => {} },
  });
  await candidate.load({ text: candidateText, by: 'anna', reason: 'a test' });
  const rules = rulesFrom(live);
  const options = { candidate, rules: () => rules, split: undefined } as unknown as CandidateOptions; // the only properties that are read
  const found = candidateOperations(options).find(({ path }) => path === '/api/v1/candidate/diff');
  if (!found) throw new Error('there is no such operation');
  return async () => found.answer({ query: {} } as Parameters<typeof found.answer>[0]);
}

test('one comparison runs at a time, in many turns, between which requests are answered', async () => {
  const compare = await comparing(patterns('a', 200), patterns('b', 200));
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns++;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const first = compare().finally(() => {
    isDone = true;
  });
  await expect(compare()).rejects.toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
  expect(await first).toMatchObject({ added: { length: 200 }, removed: { length: 200 } });
  expect(turns).toBeGreaterThan(1_000); // 2 * 200 * 200 pairs, a few dozen per turn
  expect(await compare()).toMatchObject({ added: { length: 200 } });
});

test('a comparison of too many rules is refused, and a later one is not', async () => {
  const compare = await comparing(patterns('a', 1), patterns('b', 1_000));
  await expect(compare()).rejects.toMatchObject({ status: 413, message: expect.stringContaining('use weir diff') });
  await expect(compare()).rejects.toMatchObject({ status: 413 });
});
