import { chargeWithFaults } from '../../../proof/chaos/usage.ts';

test('usage equals the counters while workers, the control process, the instance and Redis are killed', async () => {
  const found = await chargeWithFaults({ charges: 3_000, keys: 50, faultMs: 300 });
  expect(found).toMatchObject({ wrongKeys: 0, reported: found.counted });
  expect(found.counted).toBeGreaterThanOrEqual(found.admitted);
  expect(found.admitted).toBeGreaterThanOrEqual(3_000);
  expect(found.faults).toBeGreaterThan(0);
});

test('after failovers of Redis, usage has at least what its counters have, and nothing twice', async () => {
  const found = await chargeWithFaults({ charges: 2_000, keys: 50, faultMs: 200, hasFailovers: true });
  expect(found).toMatchObject({ wrongKeys: 0, double: 0 });
  expect(found.lost).toBeLessThanOrEqual(found.lostByStore);
  expect(found.faults).toBeGreaterThan(0); // the first is a failover
});
