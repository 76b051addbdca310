import { eventually, firstStarts, groupsOf, startDeferral, upTo } from './deferral-service.ts';
import { closeAll } from './service.ts';

const RULES = `
domain: work
descriptors:
  - key: key
    rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: 10, burst: 10 }
`;
const KEYS = ['a', 'b', 'c', 'd', 'e'];
const JOBS_OF_A_KEY = 40;
const JOBS = KEYS.length * JOBS_OF_A_KEY;
const TIMEOUT_MS = 180_000;

/** Longer than Redis is down, so that only the lock of a killed worker expires. */
const LOCK_MS = 10_000;

afterEach(closeAll);

test("every refused job completes in the order of its key although a worker is killed and Redis restarts, and only the killed worker's jobs start again", async () => {
  const deferral = await startDeferral(RULES);
  const { queue, redis, notes } = deferral;
  const jobs = upTo(JOBS_OF_A_KEY).flatMap((at) =>
    KEYS.map((key) => ({ name: 'work', data: { key, at, runMs: 500 } })),
  );
  await queue.addBulk(jobs);
  const [doomed] = await Promise.all([
    deferral.startWorker({ lockMs: LOCK_MS }),
    deferral.startWorker({ lockMs: LOCK_MS }),
  ]);
  const begun = (count: number) => eventually(`${count} jobs have run`, async () => notes().length > 2 * count);
  await begun(JOBS * 0.3);
  const isRunning = () => {
    const own = notes().filter(({ pid }) => pid === doomed.pid);
    return own.filter(({ what }) => what === 'start').length > own.filter(({ what }) => what === 'end').length;
  };
  await eventually('the worker that is to be killed runs a job', async () => isRunning());
  await doomed.stop('SIGKILL');
  await begun(JOBS * 0.5);
  await redis.kill();
  await redis.restart();
  await eventually('all jobs are completed', async () => (await queue.queue.getCompletedCount()) === JOBS, TIMEOUT_MS);

  const all = notes();
  expect([...firstStarts(all).keys()].sort()).toEqual(KEYS);
  for (const order of firstStarts(all).values()) expect(order).toEqual(upTo(JOBS_OF_A_KEY));
  const starts = groupsOf(
    all.filter(({ what }) => what === 'start'),
    ({ key, at }) => `${key} ${at}`,
  );
  const repeated = [...starts.values()].filter(({ length }) => length > 1);
  expect(repeated).not.toEqual([]);
  for (const [first, ...others] of repeated) {
    expect(others).toHaveLength(1);
    expect(first?.pid).toBe(doomed.pid);
  }
  const cutShort = [...starts.values()].filter(
    ([first]) => !all.some((note) => note.what === 'end' && note.key === first?.key && note.at === first.at),
  );
  expect(cutShort).toEqual([]);
  expect(await queue.queue.getFailedCount()).toBe(0);
});
