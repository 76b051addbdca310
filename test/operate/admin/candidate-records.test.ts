import '../../helpers/realm.ts';
import { memoryRecords, type Records } from '../../../src/engine/backends/records.ts';
import { checkRuleFiles } from '../../../src/engine/rules/reload/load.ts';
import { CandidateRecords } from '../../../src/operate/admin/candidate-records.ts';
import { CandidateBook } from '../../../src/operate/candidate/book.ts';
import { fakeClock } from '../../helpers/clock.ts';

const posted = (perMinute: number) => ({
  ...{ by: 'anna', reason: 'a test' },
  text: `{ domain: demo, descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: ${perMinute} } }] }`,
});

/** An instance that shares these records. */
function instanceOn(records: Records) {
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
  return { book, records: new CandidateRecords(records, book) };
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
  const read: string[] = [];
  const { book, records } = instanceOn({
    ...shared,
    all: (map) => {
      read.push(map);
      return shared.all(map);
    },
  });
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
  const read: string[] = [];
  const later = instanceOn({
    ...shared,
    all: (map) => {
      read.push(map);
      return shared.all(map);
    },
  });
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
