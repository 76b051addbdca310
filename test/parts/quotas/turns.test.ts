import { setImmediate as nextTurn } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { field } from '../../../proof/attack/messages.ts';
import type { BucketAction } from '../../../src/parts/quotas/messages.ts';
import { QuotaService, shareTerms } from '../../../src/parts/quotas/quota-service.ts';
import { MemoryShares } from '../../../src/parts/quotas/share-store.ts';
import { bufferBytes } from '../../helpers/heap.ts';
import { crossedRules, crossing } from '../../helpers/patterns.ts';
import { streamQuotas } from '../../helpers/quota-client.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';
import { until } from '../../helpers/until.ts';

const rules = rulesFrom(`
domain: d
descriptors:
  - { key: k, rate_limit: { unit: second, requests_per_unit: 1000 } }
${crossedRules}
`);
const terms = shareTerms(60_000);
const MAX_BUCKETS = 400;
/** The most buckets handled in a turn, and the holders of shares that cost as much as a bucket. */
const SLICE_UNITS = 200;
const HOLDERS_PER_UNIT = 8;

/** Proxies, and the results of their reports. */
function open(count: number, onSlice: (holders: number) => void = () => {}) {
  const seen = { charged: 0, mostCharged: 0, mostActions: 0, failures: [] as status[] };
  const names = { pools: [] as string[], assigned: [] as string[] };
  const shares = new MemoryShares(() => 1_000, terms, 2 ** 30);
  const service = new QuotaService({
    ...{ rules: () => rules, keyOf: (_fillMs, _domain, [entry]) => entry?.value ?? '', unknown: 'deny' },
    ...{ domains: [], maxBuckets: MAX_BUCKETS, terms, monotonicMs: () => 1_000, onUnavailable: () => {} },
    shares: {
      holders: (key) => shares.holders(key),
      step(reports) {
        names.pools.push(...reports.map(({ key }) => key));
        onSlice(reports.reduce((sum, { key }) => sum + shares.holders(key), 0));
        return shares.step(reports);
      },
    },
  });
  const call = {
    send(actions: readonly BucketAction[]) {
      names.assigned.push(...actions.map(({ pairs: [entry] }) => entry?.value ?? ''));
      seen.mostActions = Math.max(seen.mostActions, actions.length);
    },
    charge(bytes: number) {
      seen.charged += bytes;
      seen.mostCharged = Math.max(seen.mostCharged, seen.charged);
    },
    fail: (code: status) => void seen.failures.push(code),
    end: () => {},
  };
  const receivers = Array.from({ length: count }, () => service.open(call, undefined));
  return { service, receivers, seen, names };
}

const reportOf = (buckets: number, idOf = (at: number): Record<string, string> => ({ k: String(at) })): Buffer =>
  streamQuotas.requestSerialize({
    domain: 'd',
    bucket_quota_usages: Array.from({ length: buckets }, (_, at) => ({
      bucket_id: { bucket: idOf(at) },
      time_elapsed: { seconds: 0 },
      num_requests_allowed: 1,
      num_requests_denied: 0,
    })),
  });

test('the reports of all proxies are handled one slice per turn of the event loop', async () => {
  let slices = 0;
  const most = await mostStepsInATurn(async (step) => {
    const { service, receivers } = open(4, () => {
      slices++;
      step();
    });
    const report = reportOf(MAX_BUCKETS);
    for (const receiver of receivers) receiver.message(report);
    await until('all have shares', () => service.counts.assignments === 4 * MAX_BUCKETS);
  });
  expect(most).toBe(1);
  expect(slices).toBeGreaterThanOrEqual(4 * (MAX_BUCKETS / SLICE_UNITS));
});

test('the more proxies share buckets, the fewer of these are handled per turn of the event loop', async () => {
  const proxies = 20;
  const most = await mostStepsInATurn(async (step) => {
    const { service, receivers } = open(proxies, (holders) => {
      for (let at = 0; at < holders; at++) step();
    });
    const report = reportOf(MAX_BUCKETS);
    for (const receiver of receivers) receiver.message(report);
    await until('all have shares', () => service.counts.assignments === proxies * MAX_BUCKETS);
  });
  expect(most).toBeLessThanOrEqual(SLICE_UNITS * HOLDERS_PER_UNIT + proxies);
});

test('a bucket beyond the maximum of a proxy is answered as an unknown one, and not kept', async () => {
  const { service, receivers } = open(1);
  receivers[0]?.message(reportOf(MAX_BUCKETS + 1));
  await until('the others have shares', () => service.counts.assignments === MAX_BUCKETS);
  expect(service.counts).toMatchObject({ buckets: MAX_BUCKETS, unknown: 1 });
});

test('the search for patterns counts in the slice of a report', async () => {
  const { service, receivers, seen } = open(1);
  receivers[0]?.message(reportOf(40, (at) => ({ path: `${crossing(5)}${at}` }))); // 100 units each
  await until('all are refused', () => service.counts.assignments === 40);
  expect(seen.mostActions).toBeLessThanOrEqual(3);
});

test('reports of streams that have ended meanwhile are dropped at once, and others need not wait for them', async () => {
  const { service, receivers } = open(1_001);
  const [live, ...others] = receivers;
  for (const one of others) {
    one.message(reportOf(1));
    one.close();
  }
  live?.message(reportOf(1));
  let turns = 0;
  for (; service.counts.assignments === 0 && turns < 2_000; turns++)
    await new Promise((resolve) => setImmediate(resolve));
  expect(turns).toBeLessThan(10);
  expect(service.counts.assignments).toBe(1);
});

test('ended streams hold none of their reports, even if others are busy before them', async () => {
  const MIB = 1_048_576;
  const busy = 80;
  const { service, receivers } = open(busy + 20);
  const report = reportOf(MAX_BUCKETS);
  for (const receiver of receivers.slice(0, busy)) receiver.message(report);
  await nextTurn();
  const before = bufferBytes();
  for (const receiver of receivers.slice(busy)) {
    for (let at = 0; at < 4; at++) receiver.message(Buffer.alloc(MIB, report));
    receiver.close();
  }
  await nextTurn();
  expect(bufferBytes() - before).toBeLessThan(4 * MIB);
  expect(service.counts.assignments).toBeLessThan(busy * MAX_BUCKETS);
  for (const receiver of receivers) receiver.close();
});

test('streams that end while their report is handled no longer hold it', async () => {
  const MIB = 1_048_576;
  const ended = 20;
  const busy = 80;
  const { service, receivers } = open(busy + ended);
  const report = reportOf(MAX_BUCKETS);
  const before = bufferBytes();
  for (const receiver of receivers.slice(0, ended))
    receiver.message(Buffer.concat([report, field(15, Buffer.alloc(3 * MIB))]));
  for (const receiver of receivers.slice(ended)) receiver.message(report);
  for (let turn = 0; turn < 3 * ended; turn++) await nextTurn();
  expect(bufferBytes() - before).toBeGreaterThan(40 * MIB);
  for (const receiver of receivers.slice(0, ended)) receiver.close();
  await nextTurn();
  expect(bufferBytes() - before).toBeLessThan(8 * MIB);
  expect(service.counts.assignments).toBeLessThan(busy * MAX_BUCKETS);
  for (const receiver of receivers) receiver.close();
});

test('the positions of usages are charged while a report is handled', async () => {
  const { service, receivers, seen } = open(1);
  const bytes = Buffer.concat([reportOf(1), Buffer.from(Array.from({ length: 1_000 }, () => [0x12, 0]).flat())]);
  receivers[0]?.message(bytes);
  await until('it is handled', () => service.counts.unknown === 1_000 && seen.charged < bytes.length);
  expect(seen.mostCharged).toBeGreaterThanOrEqual(bytes.length + 8 * 1_001);
});

test('a report with many more usages than a proxy may have buckets ends its stream', async () => {
  const { service, receivers, seen } = open(1);
  receivers[0]?.message(
    Buffer.concat([reportOf(1), Buffer.from(Array.from({ length: 2_100 }, () => [0x12, 0]).flat())]),
  );
  await until('it is refused', () => seen.failures.length > 0);
  expect(seen.failures).toEqual([status.RESOURCE_EXHAUSTED]);
  expect(service.counts.buckets).toBe(0);
});

/** A usage whose bucket id is longer than the usage. */
const MALFORMED_USAGE = Buffer.from([0x12, 2, 0x0a, 9]);

const numbered = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => String(at));

test.each([
  { where: 'in the first slice', before: 3 },
  { where: 'in a later slice', before: 220 },
])(
  'usages before a malformed one $where of a report are counted once, and those after it are not',
  async ({ before }) => {
    const { service, receivers, seen, names } = open(1);
    receivers[0]?.message(Buffer.concat([reportOf(before), MALFORMED_USAGE, reportOf(1, () => ({ k: 'after' }))]));
    await until('the stream has failed', () => seen.failures.length > 0);
    expect(seen.failures).toEqual([status.INVALID_ARGUMENT]);
    expect(names).toEqual({ pools: numbered(before), assigned: numbered(before) });
    expect(service.counts).toMatchObject({ assignments: before, buckets: 0 });
  },
);

test('a report that cannot be decoded ends its stream, and no other one', async () => {
  const { service, receivers, seen, names } = open(2);
  receivers[0]?.message(Buffer.from([0x0b])); // a group that does not end
  await until('the stream has failed', () => seen.failures.length > 0);
  receivers[1]?.message(reportOf(1));
  await until('the other one is answered', () => names.assigned.length > 0);
  expect(seen.failures).toEqual([status.INVALID_ARGUMENT]);
  expect(service.counts).toMatchObject({ streams: 1, assignments: 1 });
});

test('no usage is counted of a report whose usages overlap its end', async () => {
  const { receivers, seen, names } = open(1);
  receivers[0]?.message(Buffer.concat([reportOf(3), Buffer.from([0x12, 99])]));
  await until('the stream has failed', () => seen.failures.length > 0);
  expect(seen.failures).toEqual([status.INVALID_ARGUMENT]);
  expect(names.pools).toEqual([]);
});
