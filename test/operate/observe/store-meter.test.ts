import '../../helpers/realm.ts';
import { createStoreMeter, MEASURED_ONE_IN } from '../../../src/operate/observe/store-meter.ts';

test('one call in sixteen is measured on average, whatever the rhythm of the calls', () => {
  let calls = 0;
  let nowMs = 0;
  const meter = createStoreMeter(
    (_, elapsedMs, weight) => {
      expect(elapsedMs).toBe(3);
      calls += weight;
    },
    () => nowMs,
  );
  const total = 100_000;
  for (let call = 0; call < total; call++) {
    const begunMs = meter.begin();
    if (begunMs === undefined) continue;
    nowMs += 3;
    meter.end([], begunMs);
  }
  expect(Math.abs(calls - total)).toBeLessThan(total / 10);
  expect(calls % MEASURED_ONE_IN).toBe(0);
});
