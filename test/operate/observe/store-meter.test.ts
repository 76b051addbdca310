import '../../helpers/realm.ts';
import { createStopwatch } from '../../../src/engine/backends/lateness.ts';
import { createStoreMeter, MEASURED_ONE_IN } from '../../../src/operate/observe/store-meter.ts';

test('one call in sixteen is measured on average, whatever the rhythm of the calls', () => {
  let calls = 0;
  let nowMs = 0;
  const meter = createStoreMeter(
    (_, elapsedMs, weight) => {
      expect(elapsedMs).toBe(3);
      calls += weight;
    },
    () => {
      const begunMs = nowMs;
      return () => nowMs - begunMs;
    },
  );
  const total = 100_000;
  for (let call = 0; call < total; call++) {
    const stop = meter.begin();
    if (stop === undefined) continue;
    nowMs += 3;
    meter.end([], stop);
  }
  expect(Math.abs(calls - total)).toBeLessThan(total / 10);
  expect(calls % MEASURED_ONE_IN).toBe(0);
});

test.each([
  ['of a call that waited for this process, the rest is of the store', 500, 490, 10],
  ['while the store works, this process may stand', 40, 15, 40],
])('%s', (_, elapsedMs, stoodMs, expected) => {
  let nowMs = 0;
  let stood = 7;
  const stop = createStopwatch(() => nowMs, { stoodAtMs: () => stood })();
  nowMs += elapsedMs;
  stood += stoodMs;
  expect(stop()).toBe(expected);
});
