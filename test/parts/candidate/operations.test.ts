import '../../helpers/realm.ts';
import { memoryRecords, type Records } from '../../../src/engine/backends/records.ts';
import { firstProblems, type Problem } from '../../../src/engine/rules/read/problem.ts';
import { checkRuleFiles } from '../../../src/engine/rules/reload/load.ts';
import type { AdminOptions } from '../../../src/operate/admin/options.ts';
import { CandidateBook } from '../../../src/parts/candidate/book.ts';
import { candidateOperations } from '../../../src/parts/candidate/operations.ts';
import { CandidateRecords } from '../../../src/parts/candidate/records.ts';
import { shownProblems } from '../../../src/parts/candidate/rule-text-operations.ts';
import type { Settings } from '../../../src/settings/settings.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { wholeScope } from '../../helpers/scope.ts';

const posted = (perMinute: number) => ({
  ...{ by: 'anna', reason: 'a test' },
  text: `{ domain: demo, descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: ${perMinute} } }] }`,
});

function startBook(): CandidateBook {
  const book = new CandidateBook({
    clock: fakeClock(),
    pollIntervalMs: 1_000,
    source: undefined,
    overlay: () => [],
    every: () => () => {},
    check: (files) => checkRuleFiles(files, { mergeDomains: false }),
    onState: () => {},
  });
  book.start();
  return book;
}

/** An instance that shares these records. */
function instanceOn(records: Records) {
  const book = startBook();
  return { book, records: new CandidateRecords(records, book) };
}

/** Records that note which maps are read. */
function readsOf(shared: Records) {
  const read: string[] = [];
  const all: Records['all'] = (map) => {
    read.push(map);
    return shared.all(map);
  };
  return { read, noting: { ...shared, all } };
}

test('all instances, later ones included, follow a candidate that one of them receives, and its end', async () => {
  const shared = memoryRecords();
  const [one, other] = [instanceOn(shared), instanceOn(shared)];
  await one.records.put(posted(5));
  expect(one.book.facts).toMatchObject({ state: 'on', posted: { by: 'anna' } });
  expect(other.book.facts.state).toBe('off');
  await other.records.follow();
  expect(other.book.facts.hash).toBe(one.book.facts.hash);
  const later = instanceOn(shared);
  await later.records.follow();
  expect(later.book.facts.state).toBe('on');
  await other.records.put(undefined);
  await one.records.follow();
  expect([one, other].map(({ book }) => book.facts.state)).toEqual(['off', 'off']);
});

test('an instance that has followed the newest candidate does not read its text again', async () => {
  const shared = memoryRecords();
  const { read, noting } = readsOf(shared);
  const { book, records } = instanceOn(noting);
  await records.put(posted(5));
  expect(read).toEqual(['candidate', 'candidate_text']);
  await records.follow();
  expect(read).toEqual(['candidate', 'candidate_text', 'candidate']);
  expect(book.facts.state).toBe('on');
});

test('a candidate that cannot be recorded is refused, and nothing changes', async () => {
  const { book, records } = instanceOn({ ...memoryRecords(), put: () => Promise.reject(new Error('gone')) });
  await expect(records.put(posted(5))).rejects.toMatchObject({ status: 503, message: expect.stringContaining('gone') });
  expect(book.facts.state).toBe('off');
});

test('a text without a recorded id is not tried, and is read only once', async () => {
  const shared = memoryRecords();
  const one = instanceOn(shared);
  await one.records.put(posted(5));
  const failing = instanceOn({
    ...shared,
    put: (map, field, text) => (map === 'candidate' ? Promise.reject(new Error('gone')) : shared.put(map, field, text)),
  });
  await expect(failing.records.put(posted(1))).rejects.toMatchObject({ status: 503 });
  const { read, noting } = readsOf(shared);
  const later = instanceOn(noting);
  await later.records.follow();
  await later.records.follow();
  expect(later.book.facts.state).toBe('off');
  expect(read).toEqual(['candidate', 'candidate_text', 'candidate']);
  await one.records.put(posted(3));
  await later.records.follow();
  expect(later.book.facts).toMatchObject({ state: 'on', hash: one.book.facts.hash });
});

test('a candidate is refused if another one replaces its text before its id is recorded', async () => {
  const shared = memoryRecords();
  const other = instanceOn(shared);
  const one = instanceOn({
    ...shared,
    put: async (map, field, text) => {
      if (map === 'candidate') await other.records.put(posted(1));
      await shared.put(map, field, text);
    },
  });
  await expect(one.records.put(posted(5))).rejects.toMatchObject({ status: 409 });
  expect(one.book.facts.state).toBe('off');
  await other.records.put(posted(2));
  await one.records.follow();
  expect(one.book.facts).toMatchObject({ state: 'on', hash: other.book.facts.hash });
});

/** Rules with a level of patterns, all of which are compared with each other. */
const patterns = (name: string, count: number): string =>
  `domain: demo\ndescriptors:\n${Array.from({ length: count }, (_, at) => `  - { key: path, value: "*${name}${at}*", rate_limit: { unit: minute, requests_per_unit: 1 } }\n`).join('')}`;

/** Returns a function that calls the operation that compares. */
function comparing(live: string, candidateText: string): () => Promise<unknown> {
  const candidate = startBook();
  candidate.load({ text: candidateText, by: 'anna', reason: 'a test' });
  const rules = rulesFrom(live);
  const settings = { counters: { split: undefined }, rules: { candidate: { path: 'rules' } } };
  const options = { sourced: { candidate }, rules: () => rules, settings } as unknown as AdminOptions; // the only properties that are read
  const unkept = {} as Parameters<typeof candidateOperations>[2]; // since the candidate is in files
  const { operations } = candidateOperations(options, settings as unknown as Settings, unkept);
  const found = operations.find(({ path }) => path === '/api/v1/candidate/diff');
  if (!found) throw new Error('there is no such operation');
  return async () => found.answer({ query: {}, scope: wholeScope } as Parameters<typeof found.answer>[0]);
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

test('all problems that are not shown are counted, including those of which only the number was kept', () => {
  const found = Array.from(
    { length: 40_000 },
    (_, at): Problem => ({
      file: 'rules.yaml',
      line: at,
      path: '',
      severity: 'error',
      message: 'duplicate descriptor',
    }),
  );
  const { problems, moreProblems } = shownProblems(firstProblems(found));
  expect(problems).toHaveLength(200);
  expect(moreProblems).toBe(39_800);
});
