import { violations } from '../../../proof/soak/run.ts';
import { soak } from '../../../proof/soak/soak.ts';

/** Shorter than memory takes to be level. */
const MINUTES = 0.5;

test('no process ends, and usage is equal to the counters, after a full disk and a stopped Redis', async () => {
  const result = await soak(MINUTES, () => {});
  expect(result.processes.died).toEqual([]);
  expect(result.traffic.degraded).toBeGreaterThan(0); // Redis was stopped
  expect(result.totals.keys).toBeGreaterThan(0);
  expect(violations({ ...result, uses: [] }).filter((text) => text !== 'the deciders have grown')).toEqual([]);
});

test('every violation is found', async () => {
  const memory = { control: 1, deciders: 1 };
  const result = {
    processes: {
      died: ['a decider (process 1)'],
      controlPeakBytes: 2 ** 29,
      controlPeakAtMs: 1,
      first: memory,
      last: { ...memory, deciders: 2 },
    },
    traffic: { calls: 9, degraded: 0, failed: 0, refused: 0, hitsSent: 9, hitsAdmitted: 9, hitsUnsure: 0 },
    totals: { counted: 9, reported: 8, keys: 9, wrongKeys: 1 },
    uses: [{ name: 'metrics', times: 1, failedInFault: 0, failed: 1, longestMs: 1, lastFailure: 'status 500' }],
    isDiskFilled: true,
    faultSeconds: 1,
  };
  expect(violations(result)).toEqual([
    'a decider (process 1) ended',
    'the control process took more than 256 MiB',
    'the deciders have grown',
    'usage differs from the counters for 1 keys',
    'usage has fewer hits than were admitted',
    'metrics failed 1 times: status 500',
  ]);
  expect(violations({ ...result, totals: { counted: 10, reported: 10, keys: 9, wrongKeys: 0 } })).toContain(
    'usage has hits that were never sent',
  );
});
