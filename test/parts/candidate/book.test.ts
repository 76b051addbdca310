import '../../helpers/realm.ts';
import { mkdtempSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OverlayFile } from '../../../src/engine/rules/read/overlaid.ts';
import { plainPath } from '../../../src/engine/rules/reload/files.ts';
import { type CheckedRules, checkRuleFiles, type RuleFileState } from '../../../src/engine/rules/reload/load.ts';
import { type BookFacts, CandidateBook } from '../../../src/parts/candidate/book.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { until } from '../../helpers/until.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'candidate-'));
});

const rules = (perMinute: number | string): string => `
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: ${perMinute} }
`;

/** A book that polls when the test calls `poll`. */
function bookOf(path?: string, overlay: () => readonly OverlayFile[] = () => [], check = checked) {
  const states: BookFacts[] = [];
  let poll = (): void => {};
  const book = new CandidateBook({
    check,
    overlay,
    clock: fakeClock(),
    pollIntervalMs: 1_000,
    source: path === undefined ? undefined : plainPath(path),
    every: (_, run) => {
      poll = run;
      return () => {};
    },
    onState: (facts) => void states.push(facts),
  });
  book.start();
  let changes = 0;
  book.onChange(() => changes++);
  return { book, states, poll: () => poll(), changes: () => changes };
}

const checked = (files: readonly RuleFileState[], overlay: readonly OverlayFile[]): CheckedRules =>
  checkRuleFiles(files, { mergeDomains: false, overlay });

const posted = (text: string) => ({ text, by: 'anna', reason: 'a test' });

test('there is no candidate until one is sent', () => {
  const { book, changes } = bookOf();
  expect(book.facts).toMatchObject({ state: 'off', origin: undefined, domains: [], ruleCount: 0, problems: [] });
  expect(book.packed()).toBeUndefined();
  expect(changes()).toBe(0);
});

test('a candidate is on from when it is sent until it is cleared', () => {
  const { book, changes } = bookOf();
  book.load(posted(rules(5)));
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

test('an invalid candidate is off, even if the previous one was valid', () => {
  const { book } = bookOf();
  book.load(posted(rules(5)));
  book.load(posted(rules('five')));
  expect(book.facts).toMatchObject({
    state: 'wrong',
    posted: { text: rules('five') },
    problems: [{ file: 'candidate', line: 5, severity: 'error', path: 'descriptors[0].rate_limit.requests_per_unit' }],
  });
  expect(book.packed()).toBeUndefined();
});

test('warnings do not keep a candidate from being tried', () => {
  const { book } = bookOf();
  book.load(posted('domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: minute } }]'));
  expect(book.facts).toMatchObject({ state: 'on', problems: [{ severity: 'warning' }] });
});

test('changes of files are followed: invalid files end the trial, and valid ones start it again', async () => {
  const path = join(folder, 'candidate.yaml');
  const { book, states, poll } = bookOf(path);
  await until('the file is missing', () => book.facts.state === 'wrong');
  expect(book.facts.problems).toMatchObject([{ file: path, message: expect.stringContaining('cannot be read') }]);
  const write = async (text: string, state: BookFacts['state']) => {
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
  const failing: typeof checked = (files, overlay) =>
    mustFail ? checked([{ path: folder, name: path, state: '' }], overlay) : checked(files, overlay);
  const { book, poll } = bookOf(path, () => [], failing);
  await until('the file cannot be read', () => book.facts.state === 'wrong');
  expect(book.facts.problems).toMatchObject([{ message: expect.stringContaining('cannot be read') }]);
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
  book.load(posted(rules(6)));
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

test('the overlay of the rules also applies to the candidate', () => {
  let text = 'domain: demo\ndescriptors: [{ key: user, rate_limit: { soft: 1 } }]';
  const { book } = bookOf(undefined, () => [{ name: 'overlay.yaml', text }]);
  book.load(posted(rules(5)));
  const before = book.facts.hash;
  text = 'domain: demo\ndescriptors: [{ key: user, rate_limit: { soft: 2 } }]';
  book.checkAgain();
  expect(book.facts.state).toBe('on');
  expect(book.facts.hash).not.toBe(before);
});

test('a check lists the problems of a text and changes nothing', () => {
  const { book, changes } = bookOf();
  expect(book.check(rules('five'))).toMatchObject({ ok: false, problems: [{ line: 5 }] });
  expect(book.check(rules(5))).toMatchObject({ ok: true, ruleCount: 1 });
  expect([book.facts.state, changes()]).toEqual(['off', 0]);
});
