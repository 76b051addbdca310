import { rateFor } from '../../../src/engine/algorithms/index.ts';
import type { State } from '../../../src/engine/algorithms/limit.ts';
import { createEngine } from '../../../src/engine/create-engine.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import type { PenaltyLimit } from '../../../src/parts/penalty/penalty.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { anyLimitOf, fixedWindowOf, penaltyOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { loadText } from '../../helpers/rules.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;

/** Asks for hits of one key at times, and compares what callers are told. */
async function ask(
  rule: string,
  schedule: readonly (readonly [onMs: number, hits: number, code: string, retryAfterMs: number | undefined])[],
  spend = 'each',
) {
  const clock = fakeClock(1_700_000_000_000 - (1_700_000_000_000 % DAY)); // a window begins
  const text = `domain: d\nspend: ${spend}\ndescriptors: [{ key: k, rate_limit: { ${rule} } }]\n`;
  const engine = await createEngine({ rules: { text }, clock });
  const descriptors = (hits: number) => [{ entries: [{ key: 'k', value: 'v' }], hits }];
  for (const [onMs, hits, code, retryAfterMs] of schedule) {
    clock.advance(onMs);
    const answer = await engine.decide({ domain: 'd', descriptors: descriptors(hits) });
    expect([answer.overallCode, answer.retryAfterMs]).toEqual([code, retryAfterMs]);
  }
  await engine.close();
}

const LIMIT = 'unit: minute, requests_per_unit: 2';

test.each(['each', 'all_or_nothing', 'spare_others'])(
  'a block begins with a refusal and ends by itself, spend: %s',
  (spend) =>
    ask(
      `${LIMIT}, penalty: { block: 10m }`,
      [
        [0, 2, 'OK', undefined],
        [1_000, 1, 'OVER_LIMIT', 10 * MINUTE],
        [MINUTE, 1, 'OVER_LIMIT', 9 * MINUTE], // the limit has room again, and refused hits prolong nothing
        [0, 0, 'OVER_LIMIT', 9 * MINUTE], // a peek
        [9 * MINUTE - 1, 1, 'OVER_LIMIT', 1],
        [1, 1, 'OK', undefined],
        [0, 1, 'OK', undefined],
        [0, 1, 'OVER_LIMIT', 10 * MINUTE], // as long as the first
      ],
      spend,
    ),
);

test('a block grows up to a longest one, and begins with the first one after a time without', () =>
  ask(`${LIMIT}, penalty: { block: 10m, grow: 3x up to 1h, forgiven_after: 2h }`, [
    [0, 3, 'OVER_LIMIT', Number.POSITIVE_INFINITY],
    [10 * MINUTE, 2, 'OK', undefined],
    [0, 1, 'OVER_LIMIT', 30 * MINUTE],
    [30 * MINUTE, 2, 'OK', undefined],
    [0, 1, 'OVER_LIMIT', 60 * MINUTE],
    [60 * MINUTE + 120 * MINUTE - 1, 2, 'OK', undefined],
    [0, 1, 'OVER_LIMIT', 60 * MINUTE],
    [60 * MINUTE + 120 * MINUTE, 2, 'OK', undefined],
    [0, 1, 'OVER_LIMIT', 10 * MINUTE],
  ]));

test('prolong: true begins the block anew with each refused hit', () =>
  ask(`${LIMIT}, penalty: { block: 10m, prolong: true }`, [
    [0, 2, 'OK', undefined],
    [0, 1, 'OVER_LIMIT', 10 * MINUTE],
    [9 * MINUTE, 1, 'OVER_LIMIT', 10 * MINUTE],
    [9 * MINUTE, 0, 'OVER_LIMIT', MINUTE], // a peek prolongs nothing
    [MINUTE, 1, 'OK', undefined],
  ]));

test('a caller waits for the limit if that has no room when the block ends', () =>
  ask('unit: hour, requests_per_unit: 2, penalty: { block: 10m }', [
    [0, 2, 'OK', undefined],
    [0, 1, 'OVER_LIMIT', 60 * MINUTE],
    [60 * MINUTE, 1, 'OK', undefined],
  ]));

/** The rule in a few lines: a block beside the unchanged algorithm. */
function createModel({ inner, blockMs, growth, longestMs, forgivenMs, isProlonged }: PenaltyLimit) {
  let [untilMs, lengthMs, state] = [0, 0, undefined as State | undefined];
  return (nowMs: number, hits: number, charge: boolean | 'regardless'): boolean => {
    const isBlocked = nowMs < untilMs;
    if (isBlocked && charge !== false && hits > 0 && isProlonged) untilMs = Math.max(untilMs, nowMs + lengthMs);
    if (isBlocked && hits >= 0 && charge !== 'regardless') return false;
    const row = rateFor(inner);
    const { accepted, state: next, ttlMs } = row.step(inner, state, nowMs, hits, charge);
    if (charge !== false) state = ttlMs > 0 ? next : undefined;
    const isFull = charge === 'regardless' && !row.step(inner, state, nowMs, 1, false).accepted;
    if (!isBlocked && charge !== false && hits > 0 && (!accepted || isFull)) {
      const isFurther = lengthMs > 0 && nowMs < untilMs + forgivenMs;
      lengthMs = Math.min(isFurther ? Math.max(lengthMs * growth, blockMs) : blockMs, longestMs);
      untilMs = nowMs + lengthMs;
    }
    return accepted && (hits < 0 || !isBlocked);
  };
}

test('any schedule is answered as by the model, and a refused hit passes when it was told to return', () => {
  const anyStep = fc.record({
    onMs: fc.oneof(fc.constant(0), fc.integer({ min: -2_000, max: 200_000 })),
    hits: fc.integer({ min: -2, max: 8 }),
    charge: fc.constantFrom(true, true, true, false, 'regardless' as const),
  });
  let blocked = 0;
  fc.assert(
    fc.property(anyLimitOf.penalty, fc.array(anyStep, { maxLength: 40 }), (limit, steps) => {
      const row = algorithmFor(limit);
      const model = createModel(limit);
      let state: State | undefined;
      let nowMs = 1_700_000_000_000;
      for (const { onMs, hits, charge } of steps) {
        nowMs += onMs;
        const { accepted, state: next, ttlMs, report = next } = row.step(limit, state, nowMs, hits, charge);
        expect(accepted).toBe(model(nowMs, hits, charge));
        if (charge !== false) state = ttlMs > 0 ? next : undefined;
        const { retryAfterMs, penalty } = row.describe(limit, report, nowMs, { hits, accepted, charged: charge });
        if (penalty) blocked++;
        if (accepted || hits <= 0 || charge !== true || retryAfterMs === Number.POSITIVE_INFINITY) continue;
        const passesAt = (atMs: number): boolean => row.step(limit, state, atMs, hits, false).accepted;
        expect([passesAt(nowMs + retryAfterMs - 1), passesAt(nowMs + retryAfterMs)]).toEqual([false, true]);
      }
    }),
    { numRuns: 500 },
  );
  expect(blocked).toBeGreaterThan(200);
});

test('hits that have passed already begin a block when not one more fits', () => {
  const limit = penaltyOf(fixedWindowOf(2, DAY));
  const { step } = algorithmFor(limit);
  const first = step(limit, undefined, DAY, 1, 'regardless');
  expect(step(limit, first.state, DAY, 1, false).accepted).toBe(true);
  const second = step(limit, first.state, DAY, 1, 'regardless');
  expect(second).toMatchObject({ accepted: true, state: [DAY + MINUTE, MINUTE, DAY, 2] });
  expect(step(limit, second.state, DAY + 1, 1, false).accepted).toBe(false);
});

test.each([
  [
    '{ block: 1s, grow: 10x up to 1001ms, forgiven_after: 1s }',
    { blockMs: 1_000, growth: 10, longestMs: 1_001, forgivenMs: 1_000 },
  ],
  [
    '{ block: 364d, grow: 2x up to 365d }',
    { blockMs: 364 * DAY, growth: 2, longestMs: 365 * DAY, forgivenMs: 365 * DAY },
  ],
  ['{ block: 365d }', { blockMs: 365 * DAY, growth: 1, longestMs: 365 * DAY, forgivenMs: 0 }],
])('the shortest and the longest times are accepted: %s', (penalty, limit) => {
  const rule = `{ key: k, rate_limit: { ${LIMIT}, penalty: ${penalty} } }`;
  expect(loadText(`domain: d\ndescriptors: [${rule}]\n`)).toMatchObject({
    ok: true,
    rules: { rules: [{ limits: [{ limit }] }] },
  });
});

describe('blocked_by', () => {
  const rules = (spend: string) => `
domain: d
spend: ${spend}
descriptors:
  - key: address
    rate_limit: { name: abuse, unit: minute, requests_per_unit: 2, penalty: { block: 10m } }
    descriptors:
      - { key: path, blocked_by: abuse, rate_limit: { unit: minute, requests_per_unit: 100 } }
      - { key: method, blocked_by: [abuse] }
`;

  test.each(['each', 'all_or_nothing'])('refuses what other rules of the node count, spend: %s', async (spend) => {
    const clock = fakeClock();
    const engine = await createEngine({ rules: { text: rules(spend) }, clock });
    const ask = async (address: string, ...more: readonly string[]) => {
      const entries = [{ key: 'address', value: address }, ...more.map((key) => ({ key, value: 'any' }))];
      const answer = await engine.decide({ domain: 'd', descriptors: [{ entries, hits: 1 }] });
      const [verdict] = answer.verdicts;
      return [answer.overallCode, answer.retryAfterMs, verdict?.kind === 'limited' && verdict.decision.limitRemaining];
    };
    expect(await ask('a', 'path')).toEqual(['OK', undefined, 99]); // its own limit is shown
    expect(await ask('a')).toEqual(['OK', undefined, 1]); // and the other one has not counted it
    expect(await ask('a')).toEqual(['OK', undefined, 0]);
    expect(await ask('a', 'path')).toEqual(['OK', undefined, 98]); // not exceeded yet
    expect(await ask('a')).toEqual(['OVER_LIMIT', 10 * MINUTE, 0]);
    clock.advance(MINUTE);
    expect(await ask('a', 'path')).toEqual(['OVER_LIMIT', 9 * MINUTE, 0]);
    expect(await ask('a', 'method')).toEqual(['OVER_LIMIT', 9 * MINUTE, 0]);
    expect(await ask('b', 'path')).toEqual(['OK', undefined, 99]);
    clock.advance(9 * MINUTE);
    expect(await ask('a', 'path')).toMatchObject(['OK', undefined, 99]);
    expect(await ask('a', 'method')).toEqual(['OK', undefined, 2]);
    await engine.close();
  });

  const openBlocked = async (text: string, clock = fakeClock()) => {
    const engine = await createEngine({ rules: { text }, clock });
    const ask = (key: string, hits: number) => {
      const entries = [{ key: 'address', value: 'a' }, ...(key === '' ? [] : [{ key, value: 'any' }])];
      return engine.decide({ domain: 'd', descriptors: [{ entries, hits }] });
    };
    return { engine, ask };
  };

  test('refuses nothing for a node in shadow mode', async () => {
    const { engine, ask } = await openBlocked(
      rules('each')
        .replace('key: path,', 'key: path, shadow_mode: true,')
        .replace('key: method,', 'key: method, shadow_mode: true,'),
    );
    expect((await ask('', 3)).overallCode).toBe('OVER_LIMIT');
    expect((await ask('path', 1)).overallCode).toBe('OK');
    expect((await ask('method', 1)).overallCode).toBe('OK');
    await engine.close();
  });

  test.each(['each', 'all_or_nothing'])('takes back hits during a block, spend: %s', async (spend) => {
    const clock = fakeClock();
    const { engine, ask } = await openBlocked(
      rules(spend).replace('minute, requests_per_unit: 100', 'day, requests_per_unit: 100'),
      clock,
    );
    await ask('path', 50);
    await ask('', 3);
    await ask('path', -50);
    clock.advance(10 * MINUTE);
    const [verdict] = (await ask('path', 1)).verdicts;
    expect(verdict?.kind === 'limited' && verdict.decision.limitRemaining).toBe(99);
    await engine.close();
  });

  test('names the end of the block, even if the limit has no room then', async () => {
    const { engine, ask } = await openBlocked(rules('each').replace('unit: minute', 'unit: day'));
    await ask('', 2);
    await ask('', 1);
    expect((await ask('path', 1)).retryAfterMs).toBe(10 * MINUTE);
    expect((await ask('method', 1)).retryAfterMs).toBe(10 * MINUTE);
    await engine.close();
  });

  test('names all limits of the node above with the name', async () => {
    const one = '{ name: abuse, unit: minute, requests_per_unit: 2, penalty: { block: 10m } }';
    const { engine, ask } = await openBlocked(
      rules('each').replace(`rate_limit: ${one}`, `rate_limits: [${one.replace('2,', '90,')}, ${one}]`),
    );
    await ask('', 3);
    expect((await ask('path', 1)).overallCode).toBe('OVER_LIMIT');
    await engine.close();
  });

  test('a node without a limit of its own has a response', async () => {
    const { engine, ask } = await openBlocked(
      rules('each').replace('[abuse] }', '[abuse], response: { body: blocked } }'),
    );
    await ask('', 3);
    expect(engine.refusal(await ask('method', 1))?.body).toBe('blocked');
    await engine.close();
  });

  test.each([
    [
      '{ key: path, blocked_by: other }',
      "requires a limit with penalty and the name 'other' on the node directly above",
    ],
    ['{ key: path, blocked_by: abuse, rate_limit: { unlimited: true } }', 'cannot be used beside unlimited'],
    [
      '{ key: path, blocked_by: abuse, rate_limit: { unit: day, requests_per_unit: 9, active: { days: mon } } }',
      'cannot be used beside unlimited, active',
    ],
  ])('%s is refused', (node, message) => {
    const loaded = loadText(
      rules('each').replace('{ key: method, blocked_by: [abuse] }', node.replace('path', 'method')),
    );
    if (loaded.ok) throw new Error('expected a problem');
    expect(loaded.problems.map((one) => one.message)).toEqual([expect.stringContaining(message)]);
  });
});
