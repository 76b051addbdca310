import { OriginPaused, weirFetch } from '../../client/src/fetch.ts';
import { SharedPauses } from '../../client/src/outgoing/shared-pauses.ts';
import { startApi } from './others-api.ts';
import { closeAll, openClient, RULES, type Service, startService } from './service.ts';

const TIMEOUT_MS = 120_000;
/** Longer than the others take to begin their requests on a busy machine. */
const PAUSE_MS = 3_000;

const PAUSES = `
domain: outgoing
descriptors:
  - key: origin
    rate_limit: { algorithm: token_bucket, unit: second, requests_per_unit: 1000, burst: 3600000 }
`;

afterEach(closeAll);

const now = () => performance.now();
const sharedBy = async (service: Service, target = service.grpc) =>
  new SharedPauses({ client: await openClient({ target }), domain: 'outgoing', timeoutMs: undefined }, now);

test('a process pauses when another process was asked to', async () => {
  const { grpc: target } = await startService(PAUSES);
  const api = await startApi({ status: 429, headers: { 'retry-after': String(PAUSE_MS / 1_000) } });
  const open = async (maxWaitMs: number) => weirFetch({ client: await openClient({ target }), maxWaitMs });
  const processes = await Promise.all([open(0), open(60_000), open(0)]); // each with its own client
  const [first, waiting, hasty] = processes;
  expect((await first(`${api.origin}/first`)).status).toBe(429);
  const later = waiting(`${api.origin}/waiting`);
  await expect(hasty(`${api.origin}/hasty`)).rejects.toBeInstanceOf(OriginPaused);
  expect((await later).status).toBe(200);
  expect(processes.map((send) => send.stats().notShared)).toEqual([0, 0, 0]);
  expect(api.received.map(({ path }) => path)).toEqual(['/first', '/waiting']);
  const [asked, sent] = api.received.map(({ atMs }) => atMs);
  expect((sent ?? 0) - (asked ?? 0)).toBeGreaterThan(PAUSE_MS - 10); // timers count whole milliseconds
});

test('without Weir, each process pauses by itself', async () => {
  const service = await startService(PAUSES);
  const api = await startApi({ status: 429, headers: { 'retry-after': '1' } });
  const client = await openClient({ target: service.grpc });
  await service.stop();
  const send = weirFetch({ client, timeoutMs: 1_000, baseBackoffMs: 1 });
  expect((await send(api.origin)).status).toBe(200);
  expect((api.received[1]?.atMs ?? 0) - (api.received[0]?.atMs ?? 0)).toBeGreaterThan(990);
  expect(send.stats().notShared).toBeGreaterThan(0);
});

test.each([
  ['there is none', RULES],
  [
    'it is another limit',
    'domain: outgoing\ndescriptors: [{ key: origin, rate_limit: { unit: day, requests_per_unit: 1000 } }]',
  ],
])('without the rule, each process pauses by itself, as counted: %s', async (_, rules) => {
  const service = await startService(rules);
  const api = await startApi({ status: 429, headers: { 'retry-after': '1' } });
  const send = weirFetch({ client: await openClient({ target: service.grpc }), baseBackoffMs: 1 });
  expect((await send(api.origin)).status).toBe(200);
  expect(send.stats().notShared).toBeGreaterThan(0);
});

test('pauses of many processes at the same moment do not add up', async () => {
  const service = await startService(PAUSES);
  const processes = await Promise.all(Array.from({ length: 20 }, () => sharedBy(service)));
  await Promise.all(processes.map((pauses, at) => pauses.extend('api', at === 7 ? 90_000 : 60_000)));
  const reader = await sharedBy(service);
  const leftMs = (await reader.read('api')) - now();
  expect(leftMs).toBeGreaterThan(0);
  expect(leftMs).toBeLessThanOrEqual(90_000);
  expect([...processes, reader].map(({ failed }) => failed)).toEqual(Array(21).fill(0));
});

test.each(['grpc', 'http'] as const)(
  'a longer pause prolongs a shorter one, but not vice versa, over %s',
  async (port) => {
    const service = await startService(PAUSES);
    const pauses = await sharedBy(service, service[port]);
    for (const ms of [60_000, 600_000, 1_000]) await pauses.extend('api', ms);
    const leftMs = (await pauses.read('api')) - now();
    expect(leftMs).toBeLessThanOrEqual(600_000);
    expect(leftMs).toBeGreaterThan(600_000 - TIMEOUT_MS);
  },
);

test('a pause is at most as long as the rule permits', async () => {
  const service = await startService(PAUSES.replace('3600000', '100000'));
  const pauses = await sharedBy(service);
  await pauses.extend('api', 90_000);
  await pauses.extend('api', 3_600_000);
  expect((await pauses.read('api')) - now()).toBeLessThanOrEqual(100_000);
});
