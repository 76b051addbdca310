import { eventually, firstStarts, groupsOf, startDeferral, statsOf, upTo } from './deferral-service.ts';
import { closeAll, openClient } from './service.ts';

const KEYS = upTo(25).map((at) => `key-${at}`);
const JOBS_OF_A_KEY = 50;
const JOBS = KEYS.length * JOBS_OF_A_KEY;
/** Low enough that the limit delays jobs, not the machine. */
const PER_SECOND = 5;

/** Large enough that hits which a busy machine leaves unused for a while are not lost. */
const BURST = 100;
const RULES = `
domain: work
descriptors:
  - key: key
    rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: ${PER_SECOND}, burst: ${BURST} }
`;
const TIMEOUT_MS = 240_000;
const NS = 1e9;
const admissible = (seconds: number): number => KEYS.length * PER_SECOND * seconds;

afterEach(closeAll);

test('1,250 refused jobs run at the limit, at most one percent above it, and each key gets its share', async () => {
  const deferral = await startDeferral(RULES);
  const { queue, service, notes } = deferral;
  const jobs = upTo(JOBS_OF_A_KEY).flatMap((at) => KEYS.map((key) => ({ name: 'work', data: { key, at, runMs: 0 } })));
  await queue.addBulk(jobs);
  const client = await openClient({ target: service.grpc });
  const beganNs = process.hrtime.bigint();
  const spent = await Promise.all(KEYS.map((key) => client.limit('work', { key }, { hits: BURST })));
  expect(spent.map(({ ok, remaining }) => [ok, remaining])).toEqual(KEYS.map(() => [true, 0]));
  const worker = await deferral.startWorker({ lockMs: 30_000 });
  const all = async () => (await queue.queue.getCompletedCount()) === JOBS;
  await eventually('all jobs are completed', all, TIMEOUT_MS);

  const starts = notes().filter(({ what }) => what === 'start');
  expect(starts).toHaveLength(JOBS);
  for (const order of firstStarts(starts).values()) expect(order).toEqual(upTo(JOBS_OF_A_KEY));

  const startedOfAdmissible = starts.map(({ nowNs }, at) => (at + 1) / admissible(Number(nowNs - beganNs) / NS));
  const late = startedOfAdmissible.slice(0.75 * JOBS);
  expect(Math.max(...late)).toBeLessThan(1.01);
  expect(Math.max(...late)).toBeGreaterThan(0.6); // a busy machine starts jobs late
  expect(late.at(-1)).toBeGreaterThan(0.5);

  const half = groupsOf(starts.slice(0, JOBS / 2), ({ key }) => key);
  const shares = KEYS.map((key) => (half.get(key)?.length ?? 0) / (JOBS_OF_A_KEY / 2));
  expect(Math.min(...shares)).toBeGreaterThan(0.8);
  expect(Math.max(...shares)).toBeLessThan(1.2);

  const stats = await statsOf(worker);
  expect(stats).toMatchObject({ started: JOBS, restarted: 0, completed: JOBS, failed: 0, deadLettered: 0 });
  expect(stats.refused).toBeLessThan(1.5 * JOBS); // only the first job of a key sends requests
});
