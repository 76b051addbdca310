import { Queue } from 'bullmq';
import { createDeferredQueue, createDeferredWorker, type DeferredWorkerOptions } from '../../client/src/bullmq.ts';
import { PARK_MS } from '../../client/src/deferral/heads.ts';
import { Lines } from '../../client/src/deferral/lines.ts';
import type { Client } from '../../client/src/index.ts';
import { startRedis } from '../helpers/redis.ts';
import { eventually, upTo } from './deferral-service.ts';
import { closeAll, closeLater, openClient, type Service, startService } from './service.ts';

const RULES = `
domain: jobs
descriptors:
  - key: fast
    rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: 20, burst: 2 }
  - key: paced
    rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: 5, burst: 2 }
  - key: closed
    rate_limit: { unit: week, requests_per_unit: 2 }
  - key: all
    rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: 100, burst: 2 }
`;

interface Work {
  readonly key?: string;
  readonly at: number;
}

let service: Service;
let client: Client;
let connection: { readonly host: string; readonly port: number };
beforeAll(async () => {
  const redis = await startRedis();
  closeLater(() => redis.stop());
  connection = { host: '127.0.0.1', port: redis.port };
  service = await startService(RULES);
  client = await openClient({ target: service.grpc });
});
afterAll(closeAll);

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

let queues = 0;

/** Opens a queue and its worker, and records jobs in the order of their starts. */
function open({ key, ...options }: Partial<DeferredWorkerOptions<Work>> = {}, run: (work: Work) => unknown = () => {}) {
  const name = `queue-${queues++}`;
  const lines = { domain: 'jobs', key: key ?? counted('fast', name) };
  const queue = createDeferredQueue<Work>(name, { connection, ...lines });
  const started: Work[] = [];
  const deferred = createDeferredWorker<Work>(
    name,
    async ({ data }) => {
      started.push(data);
      return run(data);
    },
    { connection, client, concurrency: 5, checkIntervalMs: 200, timeoutMs: 60_000, ...lines, ...options },
  );
  closing.push(() => queue.close(), deferred.close);
  const add = (works: readonly Work[]) => queue.addBulk(works.map((data) => ({ name: 'work', data })));
  const ended = (count: number) =>
    eventually(`${count} jobs have ended`, async () => {
      const counts = await queue.queue.getJobCounts('completed', 'failed');
      return (counts.completed ?? 0) + (counts.failed ?? 0) === count;
    });
  return { name, queue: queue.queue, deferred, started, add, ended };
}

/** Counts jobs with a key by a rule, with separate counters for each test. */
const counted =
  (rule: string, test: string) =>
  ({ key }: Work) =>
    key === undefined ? undefined : { [rule]: `${test}-${key}` };

const worksOf = (key: string, count: number): readonly Work[] => upTo(count).map((at) => ({ key, at }));

const placesOf = (works: readonly Work[], key: string) => works.filter((work) => work.key === key).map(({ at }) => at);

test('refused jobs run later, in the order of arrival for each key, and only the first of a key sends requests', async () => {
  const { add, ended, started, deferred } = open({ key: counted('paced', 'in-order') });
  let each = 0;
  do {
    await add(upTo(8).flatMap((at) => ['a', 'b'].map((key) => ({ key, at: each + at }))));
    each += 8;
    await ended(2 * each);
  } while (deferred.stats().refused === 0); // a busy machine may ask so slowly that none is refused
  for (const key of ['a', 'b']) expect(placesOf(started, key)).toEqual(upTo(each));
  const { refused, ...others } = deferred.stats();
  const jobs = 2 * each;
  expect(others).toMatchObject({
    started: jobs,
    restarted: 0,
    completed: jobs,
    failed: 0,
    deadLettered: 0,
    unanswered: 0,
  });
  expect(refused).toBeLessThanOrEqual(1.5 * jobs);
});

test('keys that share a limit take turns, so that a few jobs of one do not wait for many of another', async () => {
  const { add, ended, started } = open({ key: ({ key = '' }) => [{ tenant: key }, { all: 'shared' }] });
  await add(worksOf('many', 200));
  await add(upTo(5).flatMap((key) => worksOf(`few-${key}`, 10)));
  await ended(250);
  const lastOfFew = started.findLastIndex(({ key }) => key !== 'many');
  expect(placesOf(started.slice(0, lastOfFew), 'many').length).toBeLessThan(100);
});

test('jobs without a key are not limited', async () => {
  const { add, ended, started, deferred } = open();
  await add([...worksOf('a', 3), ...upTo(30).map((at) => ({ at }))]);
  await ended(33);
  expect(started).toHaveLength(33);
  expect(deferred.stats().refused).toBeLessThan(6);
});

test('a job that was added with a queue of BullMQ joins the line of its key', async () => {
  const { name, add, ended, started } = open();
  await add(worksOf('a', 10));
  const plain = new Queue(name, { connection });
  closing.push(() => plain.close());
  await plain.add('work', { key: 'a', at: 10 });
  await ended(11);
  expect(placesOf(started, 'a')).toEqual(upTo(11));
});

test('a job with a delay arrives when the delay has ended', async () => {
  const { queue, add, ended, started, name } = open();
  const deferredQueue = createDeferredQueue<Work>(name, { connection, domain: 'jobs', key: counted('fast', name) });
  closing.push(() => deferredQueue.close());
  await deferredQueue.add('work', { key: 'a', at: 5 }, { delay: 100 });
  await add(worksOf('a', 5));
  await ended(6);
  expect(placesOf(started, 'a')).toHaveLength(6);
  expect(await queue.getFailedCount()).toBe(0);
});

test('a job that is added again with its id runs once, and does not hold up its key', async () => {
  const { name, add, ended, started } = open();
  const own = createDeferredQueue<Work>(name, { connection, domain: 'jobs', key: counted('fast', name) });
  closing.push(() => own.close());
  const repeat = () => own.add('work', { key: 'a', at: 0 }, { jobId: 'order-1' });
  expect((await repeat()).id).toBe('order-1');
  await repeat();
  await ended(1);
  await repeat();
  await add([{ key: 'a', at: 1 }]);
  await ended(2);
  expect(placesOf(started, 'a')).toEqual([0, 1]);
});

test('adding a job again during its back-off or its own delay changes nothing', async () => {
  const { name, queue, add, ended, started, deferred } = open({}, ({ at }) => {
    if (at === 0) throw new Error('no');
  });
  const own = createDeferredQueue<Work>(name, { connection, domain: 'jobs', key: counted('fast', name) });
  closing.push(() => own.close());
  const repeat = () => own.add('work', { key: 'a', at: 0 }, { jobId: 'order-1', attempts: 3, backoff: 60_000 });
  await repeat();
  await eventually('the job has thrown', async () => deferred.stats().failed === 1);
  const delayed = () => own.add('work', { key: 'a', at: 2 }, { jobId: 'order-2', delay: 86_400_000 });
  await delayed();
  for (let time = 0; time < 3; time++) await repeat();
  await own.add('work', { key: 'a', at: 2 }, { jobId: 'order-2' });
  await add([{ key: 'a', at: 1 }]);
  await ended(1);
  expect(placesOf(started, 'a')).toEqual([0, 1]);
  expect(await queue.getJobState('order-1')).toBe('delayed');
  expect((await queue.getJob('order-1'))?.attemptsMade).toBe(1);
  expect(await queue.getJobState('order-2')).toBe('delayed');
});

test('adding a job again puts it into its line if its process died before doing so', async () => {
  const { name, queue, ended, started } = open();
  const own = createDeferredQueue<Work>(name, { connection, domain: 'jobs', key: counted('fast', name) });
  closing.push(() => own.close());
  await queue.add('work', { key: 'a', at: 0 }, { jobId: 'order-1', delay: PARK_MS });
  await own.add('work', { key: 'a', at: 0 }, { jobId: 'order-1' });
  await ended(1);
  expect(placesOf(started, 'a')).toEqual([0]);
});

test('any number of jobs of one key can be added at once', async () => {
  const { add, queue } = open({ autorun: false });
  await add(worksOf('a', 2_500));
  expect(await queue.getJobCounts('delayed', 'waiting')).toEqual({ delayed: 2_499, waiting: 1 });
  const ids = upTo(130_000).map((at) => `unknown-${at}`);
  expect((await new Lines(queue).arrive('line', ids, PARK_MS).next()).done).toBe(true);
});

test('a job that throws is retried, and dead-lettered after its last attempt', async () => {
  const { queue, add, ended, started, deferred } = open({}, ({ at }) => {
    if (at === 1) throw new Error('no');
  });
  const name = queue.name;
  const twice = createDeferredQueue<Work>(name, { connection, domain: 'jobs', key: counted('fast', name) });
  closing.push(() => twice.close());
  await add(worksOf('a', 1));
  await twice.add('work', { key: 'a', at: 1 }, { attempts: 2, backoff: 10 });
  await add([{ key: 'a', at: 2 }]);
  await ended(3);
  expect(placesOf(started, 'a').filter((at) => at === 1)).toHaveLength(2);
  expect(deferred.stats()).toMatchObject({ started: 4, completed: 2, failed: 1, deadLettered: 1 });
  expect((await queue.getFailed()).map(({ failedReason }) => failedReason)).toEqual(['no']);
});

test('a job that its limit can never admit is dead-lettered, and the next of its key runs', async () => {
  const { queue, add, ended, started } = open({ cost: ({ at }) => (at === 0 ? 3 : 1) });
  await add(worksOf('a', 2));
  await ended(2);
  expect(placesOf(started, 'a')).toEqual([1]);
  const [failed] = await queue.getFailed();
  expect(failed?.failedReason).toBe('the job has 3 hits, and the limit of jobs.fast never admits so many');
});

test('a job that is refused too often is dead-lettered, and the next of its key runs', async () => {
  const { queue, add, ended, started, deferred } = open({ maxRefusals: 0, key: counted('paced', 'too-often') });
  let jobs = 0;
  do {
    await add(worksOf('a', 10));
    jobs += 10;
    await ended(jobs);
  } while (deferred.stats().refused === 0);
  const failed = await queue.getFailed();
  expect(new Set(failed.map(({ failedReason }) => failedReason))).toEqual(
    new Set(['the job was refused more than 0 times']),
  );
  expect(started.length + failed.length).toBe(jobs);
  expect(deferred.stats().deadLettered).toBe(failed.length);
});

test('a job whose next turn would be too late is dead-lettered at once', async () => {
  const { queue, add, ended } = open({ maxAgeMs: 60_000, key: ({ key = '' }) => ({ closed: `1-${key}` }) });
  await add(worksOf('a', 5));
  await ended(5);
  const failed = await queue.getFailed();
  expect(failed).toHaveLength(3); // the refused job, and those behind it
  for (const { failedReason } of failed)
    expect(failedReason).toMatch(/^the next turn of the job is in \d+ ms, when it is older than 60000 ms$/);
});

test('a long refusal closes a line for about a minute, and counts once until it has ended', async () => {
  const { queue, add, deferred } = open({ maxRefusals: 1, key: ({ key = '' }) => ({ closed: `2-${key}` }) });
  const jobs = await add(worksOf('a', 3));
  await eventually('a job is refused', async () => deferred.stats().refused === 1);
  const id = jobs[2]?.id ?? '';
  await eventually('it waits', async () => (await queue.getJobState(id)) === 'delayed');
  expect((await queue.getJob(id))?.delay).toBeLessThanOrEqual(61_000);
  const lines = new Lines(queue);
  const again = () => lines.close('line', id, 60_000, 7_200_000);
  expect([await again(), await again()]).toEqual([1, 1]);
  expect(await lines.close('line', 'other', 0, 0)).toBe(1);
  expect(await lines.close('line', 'other', 0, 0)).toBe(2);
  expect(await lines.close('line', 'other', 0, undefined)).toBe(2);
});

test('without an answer of the service, jobs wait, and run when it answers', async () => {
  let isAnswering = false;
  const silent = await openClient({ target: 'http://127.0.0.1:1', onError: 'deny' }, { isUp: false });
  const alternating: Client = {
    ...client,
    limit: (...request) => (isAnswering ? client : silent).limit(...request),
  };
  const { add, ended, started, deferred } = open({ client: alternating });
  await add(worksOf('a', 3));
  await eventually('a question has no answer', async () => deferred.stats().unanswered > 0);
  expect(started).toEqual([]);
  isAnswering = true;
  await ended(3);
  expect(placesOf(started, 'a')).toEqual(upTo(3));
});

test('a line continues when its first job was removed from the queue', async () => {
  const { name, queue, add, ended, started, deferred } = open({ autorun: false });
  const jobs = await add(worksOf('a', 4));
  await jobs[0]?.remove();
  await jobs[1]?.remove();
  deferred.worker.run();
  await ended(2);
  expect(queue.name).toBe(name);
  expect(placesOf(started, 'a')).toEqual([2, 3]);
  expect(deferred.stats().recovered).toBeGreaterThan(0);
});

test('OpenTelemetry counts the outcomes of jobs', async () => {
  const recorded: [name: string, attributes: object | undefined][] = [];
  const instrument = (name: string) => ({
    add: (_: number, attributes?: object) => void recorded.push([name, attributes]),
    record: (_: number, attributes?: object) => void recorded.push([name, attributes]),
  });
  const { name, add, ended, deferred } = open({
    opentelemetry: {
      metrics: { getMeter: () => ({ createCounter: instrument, createHistogram: instrument }) },
    } as never, // the used part of the module
  });
  await add(worksOf('a', 1));
  await ended(1);
  await eventually('the end of the job is counted', async () => deferred.stats().completed === 1);
  expect(recorded).toEqual([
    ['weir.client.deferral', { 'weir.queue': name, 'weir.outcome': 'started' }],
    ['weir.client.deferral.wait', { 'weir.queue': name }],
    ['weir.client.deferral', { 'weir.queue': name, 'weir.outcome': 'completed' }],
  ]);
});

test('queues and workers with invalid options are not opened', () => {
  expect(() => createDeferredQueue('jobs', { connection, domain: '', key: () => undefined })).toThrow(TypeError);
  for (const wrong of [{ domain: '' }, { checkIntervalMs: 0 }, { jitterMs: -1 }, { timeoutMs: 0 }])
    expect(() =>
      createDeferredWorker('jobs', async () => {}, {
        connection,
        client,
        domain: 'jobs',
        key: () => undefined,
        ...wrong,
      }),
    ).toThrow(TypeError);
});
