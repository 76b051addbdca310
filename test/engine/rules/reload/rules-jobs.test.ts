import type { PackedRules } from '../../../../src/engine/rules/compile/packed.ts';
import { createFileChecker } from '../../../../src/engine/rules/reload/load.ts';
import { type CheckAnswer, headOf, RulesJobs } from '../../../../src/engine/rules/reload/rules-process.ts';

/** The pieces that a process sends in one message. */
const PIECES_A_MESSAGE = 16;

const nodesOf = (limit: number, count: number): string =>
  Array.from(
    { length: count },
    (_, at) => `  - { key: k, value: v${at}, rate_limit: { unit: day, requests_per_unit: ${limit} } }\n`,
  ).join('');
const textOf = (limit: number, count = 3): string => `domain: d\ndescriptors:\n${nodesOf(limit, count)}`;

const check = (text: string) =>
  createFileChecker({ mergeDomains: false })([{ path: 'rules.yaml', name: 'rules.yaml', text, state: text }]);

/** The jobs of a process; `slowly` counts those that yielded processor time to requests. */
function openJobs() {
  let slowly = 0;
  const beside = <R>(job: () => R): R => {
    slowly++;
    return job();
  };
  const jobs = new RulesJobs(check, { mergeDomains: false }, beside);
  return {
    slowly: () => slowly,
    check(text: string, isServing = true): CheckAnswer {
      return jobs.do({ kind: 'check', job: text, isServing }) as CheckAnswer; // the answer of such a job
    },
    take: (from: number) => jobs.do({ kind: 'take', from }) as readonly string[], // likewise
    keep: (pieces: readonly string[]) => jobs.do({ kind: 'keep', pieces }),
    compare: (before: PackedRules, after: PackedRules, kept: PackedRules = []) =>
      jobs.do({ kind: 'compare', before: before.map(headOf), after: after.map(headOf), kept: kept.map(headOf) }),
  };
}

function packedOf(text: string): PackedRules {
  const checked = check(text);
  if (!checked.ok) throw new Error('expected rules that are right');
  return checked.packed;
}

const CHANGED = { text: 'changed d.k_v0, d.k_v1, d.k_v2; counters kept: d.k_v0, d.k_v1, d.k_v2' };

test('checks use all available processor time until there are current rules', () => {
  const jobs = openJobs();
  expect(jobs.check(textOf(1), false)).toMatchObject({ ok: true, ruleCount: 3 });
  expect(jobs.slowly()).toBe(0);
  jobs.check(textOf(1));
  expect(jobs.slowly()).toBe(1);
});

test('comparisons yield processor time to requests', () => {
  const jobs = openJobs();
  jobs.compare([], []);
  expect(jobs.slowly()).toBe(1);
});

test('checked rules are fetched in pieces, a few per message', () => {
  const count = 32 * PIECES_A_MESSAGE + 1;
  const jobs = openJobs();
  const checked = jobs.check(textOf(1, count));
  const pieces = packedOf(textOf(1, count)).flatMap((domain) => domain.pieces);
  expect(checked).toMatchObject({ heads: [{ name: 'd', pieceCount: pieces.length }] });
  expect(checked).not.toHaveProperty('packed');
  expect(jobs.take(0)).toEqual(pieces.slice(0, PIECES_A_MESSAGE));
  expect(jobs.take(PIECES_A_MESSAGE)).toEqual(pieces.slice(PIECES_A_MESSAGE));
  expect(jobs.take(pieces.length)).toEqual([]);
});

test('a process that does not know the current rules requests them once', () => {
  const jobs = openJobs();
  const [first, second, third] = [1, 2, 3].map((limit) => packedOf(textOf(limit)));
  jobs.check(textOf(2));
  const [inForce] = first ?? [];
  expect(jobs.compare(first ?? [], second ?? [])).toEqual({ missing: [inForce?.hash] });
  jobs.keep(inForce?.pieces ?? []);
  expect(jobs.compare(first ?? [], second ?? [], first)).toMatchObject(CHANGED);
  jobs.check(textOf(3));
  expect(jobs.compare(second ?? [], third ?? [])).toMatchObject(CHANGED);
  expect(jobs.compare(first ?? [], third ?? [])).toEqual({ missing: [inForce?.hash] }); // it is no longer in force
});

test('rules with missing pieces are requested again', () => {
  const jobs = openJobs();
  const [first, second] = [1, 2].map((limit) => packedOf(textOf(limit)));
  jobs.check(textOf(2));
  expect(jobs.compare(first ?? [], second ?? [], first)).toEqual({ missing: [first?.[0]?.hash] });
  jobs.keep(first?.[0]?.pieces ?? []);
  expect(jobs.compare(first ?? [], second ?? [], first)).toMatchObject(CHANGED);
});

test("invalid rules do not affect a process's knowledge of the current ones", () => {
  const jobs = openJobs();
  const [first, second] = [1, 2].map((limit) => packedOf(textOf(limit)));
  jobs.check(textOf(1));
  jobs.compare([], first ?? []);
  expect(jobs.check('domain: [')).toMatchObject({ ok: false });
  expect(jobs.take(0)).toEqual([]);
  jobs.check(textOf(2));
  expect(jobs.compare(first ?? [], second ?? [])).toMatchObject(CHANGED);
});
