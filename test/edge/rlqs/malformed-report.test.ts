import { status } from '@grpc/grpc-js';
import type { BucketAction } from '../../../src/edge/rlqs/messages.ts';
import { QuotaService, shareTerms } from '../../../src/edge/rlqs/quota-service.ts';
import { MemoryShares } from '../../../src/engine/shares/share-store.ts';
import { streamQuotas } from '../../helpers/quota-client.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

const rules = rulesFrom(`
domain: d
descriptors: [{ key: k, rate_limit: { unit: second, requests_per_unit: 1000 } }]
`);
const terms = shareTerms(60_000);

/** A proxy's stream, and records of what reached the pools and the proxy. */
function open() {
  const seen = { pools: [] as string[], assigned: [] as string[], failures: [] as status[], charged: 0 };
  const shares = new MemoryShares(() => 1_000, terms, 2 ** 30);
  const service = new QuotaService({
    ...{ rules: () => rules, keyOf: (_fillMs, _domain, [entry]) => entry?.value ?? '', unknown: 'deny' },
    ...{ domains: [], maxBuckets: 1_000, terms, monotonicMs: () => 1_000, onUnavailable: () => {} },
    shares: {
      holders: (key) => shares.holders(key),
      step(reports) {
        seen.pools.push(...reports.map(({ key }) => key));
        return shares.step(reports);
      },
    },
  });
  const call = {
    send: (actions: readonly BucketAction[]) => void seen.assigned.push(...actions.map(nameOf)),
    charge(bytes: number) {
      seen.charged += bytes;
    },
    fail: (code: status) => void seen.failures.push(code),
    end: () => {},
  };
  const receiver = service.open(call, undefined);
  return { receiver, seen, counts: service.counts };
}

const nameOf = ({ pairs: [entry] }: BucketAction): string => entry?.value ?? '';

/** The usages of buckets with these names. */
const usagesOf = (names: readonly string[]): Buffer =>
  streamQuotas.requestSerialize({
    domain: 'd',
    bucket_quota_usages: names.map((name) => ({
      bucket_id: { bucket: { k: name } },
      time_elapsed: { seconds: 0 },
      num_requests_allowed: 1,
      num_requests_denied: 0,
    })),
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
    const { receiver, seen, counts } = open();
    receiver.message(Buffer.concat([usagesOf(numbered(before)), MALFORMED_USAGE, usagesOf(['after'])]));
    await until('the stream has failed', () => seen.failures.length > 0);
    expect(seen.failures).toEqual([status.INVALID_ARGUMENT]);
    expect(seen.pools).toEqual(numbered(before));
    expect(seen.assigned).toEqual(numbered(before));
    expect(counts).toMatchObject({ assignments: before, buckets: 0 });
  },
);

test('no usage is counted of a report whose usages overlap its end', async () => {
  const { receiver, seen } = open();
  receiver.message(Buffer.concat([usagesOf(numbered(3)), Buffer.from([0x12, 99])]));
  await until('the stream has failed', () => seen.failures.length > 0);
  expect(seen.failures).toEqual([status.INVALID_ARGUMENT]);
  expect(seen.pools).toEqual([]);
});
