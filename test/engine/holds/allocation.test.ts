import { NEVER_MS } from '../../../src/engine/algorithms/limit.ts';
import { createEngine } from '../../../src/engine/create-engine.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { loadText } from '../../helpers/rules.ts';

const YEAR_MS = 31_536_000_000;
const rules = (more: string): string =>
  `domain: d\ndescriptors: [{ key: friends, rate_limit: { algorithm: allocation, requests_per_unit: 3, ${more} } }]\n`;

test('hits stay taken however long it takes, until they are given back', async () => {
  const clock = fakeClock();
  const engine = await createEngine({ rules: { text: rules('soft: 1') }, clock });
  const entries = [{ key: 'friends', value: 'ann' }];
  for (const [onMs, hits, code, remaining, soft] of [
    [0, 2, 'OK', 1, false],
    [0, 3, 'OVER_LIMIT', 1, false], // refused whole, and not taken
    [10 * YEAR_MS, 1, 'OK', 0, false],
    [0, 1, 'OK', 0, true],
    [YEAR_MS, 1, 'OVER_LIMIT', 0, false],
    [0, 0, 'OVER_LIMIT', 0, false], // a peek
    [0, -2, 'OK', 1, false],
    [0, 1, 'OK', 0, false],
    [0, -9, 'OK', 3, false], // never below none
    [0, 3, 'OK', 0, false],
  ] as const) {
    clock.advance(onMs);
    const { overallCode, verdicts, retryAfterMs } = await engine.decide({
      domain: 'd',
      descriptors: [{ entries, hits }],
    });
    const [verdict] = verdicts;
    if (verdict?.kind !== 'limited') throw new Error('expected a limit');
    const { limitRemaining, soft: isSoft } = verdict.decision;
    expect([overallCode, limitRemaining, isSoft]).toEqual([code, remaining, soft]);
    expect(retryAfterMs).toBe(code === 'OK' ? undefined : NEVER_MS);
  }
  await engine.close();
});

test.each([
  ['unit: day', 'cannot be used with allocation, which has no window'],
  ['window: 30s', 'cannot be used with allocation, which has no window'],
  ['on_store_failure: local', 'local cannot be used with allocation'],
  ['consistency: leased', 'cannot be used with allocation'],
  ['local_share: 2', 'cannot be used here'],
  ['schedule: [{ active: { days: mon }, unlimited: true }]', 'allocation and reserve require one counter at all times'],
])('a rule with %s is refused', (more, message) => {
  const loaded = loadText(rules(more));
  if (loaded.ok) throw new Error('expected a problem');
  expect(loaded.problems.map((one) => one.message)).toEqual([expect.stringContaining(message)]);
});
