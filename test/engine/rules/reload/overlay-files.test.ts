import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeRule } from '../../../../src/edge/listing/describe.ts';
import { formatProblem } from '../../../../src/engine/rules/read/problem.ts';
import { openRuleBook, type RuleBook } from '../../../../src/engine/rules/reload/book.ts';
import { plainPath } from '../../../../src/engine/rules/reload/files.ts';
import type { LoadedRules } from '../../../../src/engine/rules/reload/load.ts';
import { Overlay } from '../../../../src/engine/rules/reload/overlay-files.ts';
import { until } from '../../../helpers/until.ts';

const POLL_INTERVAL_MS = 20;

let folder: string;
let overlay: Overlay | undefined;
let book: RuleBook | undefined;
/** The result of each load: the number of rules, or the problems. */
let loads: (number | readonly string[])[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'overlay-'));
  loads = [];
});
afterEach(() => {
  book?.close();
  overlay?.close();
});

const at = (path: string): string => join(folder, path);
/** Writes atomically, so that no incomplete file is read. */
function write(path: string, text: string): void {
  writeFileSync(at('new'), text);
  renameSync(at('new'), at(path));
}

const rulesOf = (key: string, requestsPerUnit = 6): string =>
  `domain: demo\ndescriptors: [{key: ${key}, rate_limit: {unit: minute, requests_per_unit: ${requestsPerUnit}}}]\n`;
const overlayOf = (properties: string): string =>
  `domain: demo\ndescriptors: [{key: user, rate_limit: {${properties}}}]\n`;

async function open(): Promise<void> {
  overlay = await Overlay.open(plainPath(at('overlay')), POLL_INTERVAL_MS);
  expect(overlay.problems).toEqual([]);
  book = await openRuleBook(plainPath(at('rules.yaml')), {
    mergeDomains: false,
    overlay,
    pollIntervalMs: POLL_INTERVAL_MS,
    onLoad: (loaded: LoadedRules) =>
      void loads.push(loaded.ok ? loaded.rules.rules.length : loaded.problems.map(formatProblem)),
  });
}

/** The current rules, without their common part. */
const inForce = (): readonly string[] =>
  [...(book?.rules()?.rules ?? [])].map((rule) =>
    describeRule(rule).replaceAll(`${folder}/`, '').replace('unit=MINUTE ', ''),
  );
const untilInForce = (...texts: readonly string[]): Promise<void> =>
  until(`${texts.join(', ')} in ${inForce().join()}`, () => texts.every((text) => inForce().join().includes(text)));

beforeEach(() => {
  write('rules.yaml', rulesOf('user'));
  mkdirSync(at('overlay'));
  write('overlay/a.yaml', overlayOf('soft: 2'));
});

test('rules are loaded with their overlay from the start', async () => {
  await open();
  expect(inForce()).toEqual([
    'demo.user: requests_per_unit=6, shadow_mode: false, quota_mode: false, soft: 2, overlaid: soft (overlay/a.yaml:2)',
  ]);
});

test('a change of the overlay is applied to the current rules', async () => {
  await open();
  write('overlay/a.yaml', overlayOf('soft: 3'));
  await untilInForce('soft: 3');
  write('overlay/b.yaml', overlayOf('algorithm: sliding_window_log'));
  await untilInForce('algorithm: sliding_window_log, soft: 3');
  rmSync(at('overlay/b.yaml'));
  await until('the algorithm is gone', () => !inForce().join().includes('sliding_window_log'));
  expect(loads).toEqual([1, 1, 1, 1]);
});

test('a swap of links, as by a changed ConfigMap, is loaded', async () => {
  rmSync(at('overlay'), { recursive: true });
  for (const [version, soft] of [
    ['1', 2],
    ['2', 3],
  ] as const) {
    mkdirSync(at(`v${version}`));
    writeFileSync(at(`v${version}/a.yaml`), overlayOf(`soft: ${soft}`));
  }
  symlinkSync('v1', at('overlay'));
  await open();
  symlinkSync('v2', at('link'));
  renameSync(at('link'), at('overlay'));
  await untilInForce('soft: 3');
});

test('an invalid overlay changes nothing, is reported once, and does not prevent new rules', async () => {
  await open();
  write('overlay/a.yaml', overlayOf('burst: 2'));
  await until('it was reported', () => loads.length > 1);
  const problem = `${at('overlay/a.yaml')}:2: descriptors[0].rate_limit.burst: cannot be used with fixed_window, only with token_bucket or leaky_bucket`;
  expect(loads).toEqual([1, [problem]]);
  expect(inForce().join()).toContain('requests_per_unit=6, shadow_mode: false, quota_mode: false, soft: 2');

  write('rules.yaml', rulesOf('user', 7));
  await untilInForce('requests_per_unit=7', 'soft: 2');
  expect(loads).toEqual([1, [problem], 1, [problem]]);

  write('overlay/a.yaml', overlayOf('algorithm: token_bucket, burst: 2'));
  await untilInForce('algorithm: token_bucket, burst: 2');
  expect(loads).toEqual([1, [problem], 1, [problem], 1]);
});

test('an overlay that disappears changes nothing until it is back', async () => {
  await open();
  renameSync(at('overlay'), at('elsewhere'));
  await until('it was reported', () => loads.length > 1);
  expect(loads[1]).toEqual([expect.stringMatching(/overlay:1: cannot be read: ENOENT/)]);
  expect(inForce().join()).toContain('soft: 2');
  renameSync(at('elsewhere'), at('overlay'));
  await until('it is loaded', () => loads.length > 2);
  expect([loads[2], inForce().join().includes('soft: 2')]).toEqual([1, true]);
});

test('rules that are invalid with any overlay are refused with the problems of the newest', async () => {
  await open();
  write('overlay/a.yaml', overlayOf('soft: 3'));
  await untilInForce('soft: 3');
  write('rules.yaml', rulesOf('user').replace('minute', 'minutes'));
  await until('it was reported', () => loads.length > 2);
  expect(loads[2]).toEqual([expect.stringMatching(/^.*rules\.yaml:2: .*invalid rate limit unit 'minutes'/)]);
  expect(inForce().join()).toContain('soft: 3');
});

test('files that are not text, or too large, are refused as overlays', async () => {
  writeFileSync(at('overlay/a.yaml'), new Uint8Array([0x61, 0xff]));
  overlay = await Overlay.open(plainPath(at('overlay')), POLL_INTERVAL_MS);
  expect(overlay.problems.map(formatProblem)).toEqual([
    expect.stringMatching(/a\.yaml:1: cannot be read: .*encoded data/),
  ]);
  overlay.close();
  writeFileSync(at('overlay/a.yaml'), '#'.repeat(8 * 1024 * 1024 + 1));
  overlay = await Overlay.open(plainPath(at('overlay')), POLL_INTERVAL_MS);
  expect(overlay.problems.map(({ message }) => message)).toEqual([
    'an overlay may have at most 8388608 bytes, got more',
  ]);
});
