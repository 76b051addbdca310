import '../../helpers/realm.ts';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OverlayFile } from '../../../src/engine/rules/overlay/overlay.ts';
import type { FileChecker } from '../../../src/engine/rules/reload/book.ts';
import { plainPath } from '../../../src/engine/rules/reload/files.ts';
import { type CheckedRules, createFileChecker } from '../../../src/engine/rules/reload/load.ts';
import { CandidateBook, type CandidateFacts, TooManyChecks } from '../../../src/operate/candidate/book.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { until } from '../../helpers/until.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'candidate-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const rules = (perMinute: number | string): string => `
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: ${perMinute} }
`;

/** A book that polls when the test calls `poll`. */
function bookOf(
  path?: string,
  overlay: () => readonly OverlayFile[] = () => [],
  checker = inThisProcess(),
  textChecker = inThisProcess(),
) {
  const states: CandidateFacts[] = [];
  let poll = (): void => {};
  const book = new CandidateBook({
    ...{ checker, textChecker, overlay, clock: fakeClock(), pollIntervalMs: 1_000 },
    source: path === undefined ? undefined : plainPath(path),
    every: (_, run) => {
      poll = run;
      return () => {};
    },
    onState: (facts) => void states.push(facts),
  });
  let changes = 0;
  book.onChange(() => changes++);
  return { book, states, poll: () => poll(), changes: () => changes };
}

function inThisProcess(): FileChecker {
  const check = createFileChecker({ mergeDomains: false });
  return { do: async (files, overlay) => check(files, overlay), close: () => {} };
}

const posted = (text: string) => ({ text, by: 'anna', reason: 'a test' });

test('there is no candidate until one is sent', () => {
  const { book, changes } = bookOf();
  expect(book.facts).toMatchObject({ state: 'off', origin: undefined, domains: [], ruleCount: 0, problems: [] });
  expect(book.packed()).toBeUndefined();
  expect(changes()).toBe(0);
});

test('a candidate is on from when it is sent until it is cleared', async () => {
  const { book, changes } = bookOf();
  await book.load(posted(rules(5)));
  expect(book.facts).toMatchObject({
    ...{ state: 'on', origin: 'api', domains: ['demo'], ruleCount: 1, problems: [] },
    posted: { by: 'anna', reason: 'a test' },
  });
  expect(book.packed()).toHaveLength(1);
  book.clear();
  expect(book.facts).toMatchObject({ state: 'off', origin: 'api', posted: undefined });
  expect(book.packed()).toBeUndefined();
  expect(changes()).toBe(2);
});

test('an invalid candidate is off, even if the previous one was valid', async () => {
  const { book } = bookOf();
  await book.load(posted(rules(5)));
  await book.load(posted(rules('five')));
  expect(book.facts).toMatchObject({
    state: 'wrong',
    posted: { text: rules('five') },
    problems: [{ file: 'candidate', line: 5, severity: 'error', path: 'descriptors[0].rate_limit.requests_per_unit' }],
  });
  expect(book.packed()).toBeUndefined();
});

test('warnings do not keep a candidate from being tried', async () => {
  const { book } = bookOf();
  await book.load(posted('domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: minute } }]'));
  expect(book.facts).toMatchObject({ state: 'on', problems: [{ severity: 'warning' }] });
});

test('changes of files are followed: invalid files end the trial, and valid ones start it again', async () => {
  const path = join(folder, 'candidate.yaml');
  const { book, states, poll } = bookOf(path);
  await until('the file is missing', () => book.facts.state === 'wrong');
  expect(book.facts.problems).toMatchObject([{ file: path, message: expect.stringContaining('cannot be read') }]);
  const write = async (text: string, state: CandidateFacts['state']) => {
    writeFileSync(path, text);
    poll();
    await until(`the candidate is ${state}`, () => book.facts.state === state);
  };
  await write(rules(5), 'on');
  expect(book.facts).toMatchObject({ origin: 'file', posted: undefined });
  await write(rules('five hundred'), 'wrong');
  expect(book.facts.problems).toMatchObject([{ file: path, line: 5 }]);
  await write(rules(7_000), 'on');
  expect(states.map(({ state }) => state)).toEqual(['wrong', 'on', 'wrong', 'on']);
});

test('files that were unreadable once are read again, even if they have not changed', async () => {
  const path = join(folder, 'candidate.yaml');
  writeFileSync(path, rules(5));
  let mustFail = true;
  const right = inThisProcess();
  const checker: FileChecker = {
    ...right,
    do: (...given) => (mustFail ? Promise.reject(new Error('out of memory')) : right.do(...given)),
  };
  const { book, poll } = bookOf(path, () => [], checker);
  await until('the process has failed', () => book.facts.state === 'wrong');
  expect(book.facts.problems).toMatchObject([{ message: 'cannot be read: out of memory' }]);
  mustFail = false;
  await until('the file is read', () => {
    poll();
    return book.facts.state === 'on';
  });
});

test('files that are too large are not read', async () => {
  const path = join(folder, 'candidate.yaml');
  writeFileSync(path, rules(5));
  truncateSync(path, 8 * 1024 * 1024 + 1);
  const { book } = bookOf(folder);
  await until('the candidate is wrong', () => book.facts.state === 'wrong');
  expect(book.facts.problems).toMatchObject([
    { file: folder, message: expect.stringContaining('may have at most 8388608 bytes, got 8388609') },
  ]);
});

test('a candidate that an operator sends replaces files until they change', async () => {
  const path = join(folder, 'candidate.yaml');
  writeFileSync(path, rules(5));
  const { book, poll } = bookOf(path);
  await until('the file is on', () => book.facts.state === 'on');
  await book.load(posted(rules(6)));
  poll();
  expect(book.facts).toMatchObject({ state: 'on', origin: 'api' });
  book.clear();
  poll();
  expect(book.facts.state).toBe('off');
  writeFileSync(path, rules(1_234));
  await until('the file is on again', () => {
    poll();
    return book.facts.state === 'on';
  });
  expect(book.facts.origin).toBe('file');
});

test('the newest of several candidates is on, no matter which is checked first', async () => {
  const checks: (() => void)[] = [];
  const right = inThisProcess();
  const checker: FileChecker = {
    ...right,
    do: (...given) => new Promise<CheckedRules>((resolve) => void checks.push(() => resolve(right.do(...given)))),
  };
  const { book } = bookOf(undefined, () => [], checker);
  const both = [book.load(posted(rules(5))), book.load(posted(rules('five')))];
  expect(book.facts.state).toBe('loading');
  for (const check of checks.reverse()) check();
  await Promise.all(both);
  expect(book.facts.state).toBe('wrong');
});

test('the overlay of the rules also applies to the candidate', async () => {
  let text = 'domain: demo\ndescriptors: [{ key: user, rate_limit: { soft: 1 } }]';
  const { book } = bookOf(undefined, () => [{ name: 'overlay.yaml', text }]);
  await book.load(posted(rules(5)));
  const before = book.facts.hash;
  text = 'domain: demo\ndescriptors: [{ key: user, rate_limit: { soft: 2 } }]';
  await book.checkAgain();
  expect(book.facts.state).toBe('on');
  expect(book.facts.hash).not.toBe(before);
});

test('a check lists the problems of a text and changes nothing; only a few checks wait at a time', async () => {
  const { book, changes } = bookOf();
  expect(await book.check(rules('five'))).toMatchObject({ ok: false, problems: [{ line: 5 }] });
  expect(await book.check(rules(5))).toMatchObject({ ok: true, ruleCount: 1 });
  const several = Array.from({ length: 6 }, () => book.check(rules(5)));
  const results = await Promise.allSettled(several);
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(4);
  expect(results.filter((one) => one.status === 'rejected' && one.reason instanceof TooManyChecks)).toHaveLength(2);
  expect([book.facts.state, changes()]).toEqual(['off', 0]);
});

test('a candidate does not wait for the check of another text', async () => {
  let checks = 0;
  const endless: FileChecker = { do: () => new Promise(() => void checks++), close: () => {} };
  const { book } = bookOf(undefined, () => [], inThisProcess(), endless);
  void book.check(rules(5));
  await book.load(posted(rules(5)));
  expect([checks, book.facts.state]).toEqual([1, 'on']);
});
