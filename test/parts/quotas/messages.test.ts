import {
  type BucketAction,
  ReportTooLong,
  readBucketUsage,
  readUsageReport,
  type UsageReport,
  writeBucketActions,
} from '../../../src/parts/quotas/messages.ts';
import fc from '../../helpers/property.ts';
import { streamQuotas } from '../../helpers/quota-client.ts';

const anyPairs = fc.dictionary(fc.string({ minLength: 1, maxLength: 9 }), fc.string({ minLength: 1, maxLength: 9 }), {
  minKeys: 1,
  maxKeys: 5,
  noNullPrototype: true,
});

const usagesOf = ({ bytes, positions }: UsageReport) =>
  Array.from({ length: positions.length / 2 }, (_, at) =>
    readBucketUsage(bytes, positions[2 * at] ?? 0, positions[2 * at + 1] ?? 0),
  );

test('reports are decoded according to the .proto file', () => {
  const anyUsage = fc.record({
    bucket: anyPairs.filter((pairs) => !Object.hasOwn(pairs, '__proto__')),
    seconds: fc.integer({ min: 0, max: 1_000 }),
    allowed: fc.integer({ min: 0, max: 2 ** 40 }),
    denied: fc.integer({ min: 0, max: 2 ** 40 }),
  });
  fc.assert(
    fc.property(fc.string(), fc.array(anyUsage, { maxLength: 5 }), (domain, usages) => {
      const bytes = streamQuotas.requestSerialize({
        domain,
        bucket_quota_usages: usages.map(({ bucket, seconds, allowed, denied }) => ({
          bucket_id: { bucket },
          time_elapsed: { seconds, nanos: 250_000_000 },
          num_requests_allowed: allowed,
          num_requests_denied: denied,
        })),
      });
      const report = readUsageReport(bytes, 6);
      expect(report.domain).toBe(domain);
      const read = usagesOf(report);
      expect(read).toEqual(
        usages.map(({ bucket, seconds, allowed, denied }) => ({
          pairs: Object.entries(bucket).map(([key, value]) => ({ key, value })),
          elapsedMs: seconds * 1_000 + 250,
          requests: allowed + denied,
          allowed,
        })),
      );
    }),
    { numRuns: 100 },
  );
});

test('a bucket id with too many pairs, too long a text or no pair is not decoded', () => {
  const usageOf = (bucket: Readonly<Record<string, string>>) => {
    const bytes = streamQuotas.requestSerialize({
      domain: 'd',
      bucket_quota_usages: [
        { bucket_id: { bucket }, time_elapsed: { seconds: 0 }, num_requests_allowed: 1, num_requests_denied: 0 },
      ],
    });
    return usagesOf(readUsageReport(bytes, 2))[0];
  };
  expect(usageOf({ a: 'x' })).toBeDefined();
  expect(usageOf({})).toBeUndefined();
  expect(usageOf({ a: 'x'.repeat(1_025) })).toBeUndefined();
  expect(usageOf(Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, 'v'])))).toBeUndefined();
});

test('a report with too many fields is refused, and a usage longer than its texts can be is not decoded', () => {
  const empty = (fields: number) => Buffer.from(Array.from({ length: fields }, () => [0x12, 0]).flat());
  expect(readUsageReport(empty(10), 10).positions).toHaveLength(20);
  expect(() => readUsageReport(empty(11), 10)).toThrow(ReportTooLong);
  expect(readBucketUsage(Buffer.alloc(200_000, 0x20), 0, 200_000)).toBeUndefined();
});

test('a malformed report is refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (octets) => {
      const bytes = Buffer.from(octets);
      try {
        usagesOf(readUsageReport(bytes, 60));
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError);
      }
    }),
    { numRuns: 300 },
  );
});

test('actions are encoded according to the .proto file', () => {
  const pairs = [{ key: 'user', value: 'ann' }];
  const actions: readonly BucketAction[] = [
    { kind: 'allow', pairs, ttlMs: 60_000 },
    { kind: 'deny', pairs, ttlMs: 60_000 },
    { kind: 'token_bucket', pairs, ttlMs: 15_000, maxTokens: 4_000_000_000, tokensPerFill: 7, fillMs: 11_000 },
    { kind: 'abandon', pairs },
  ];
  const bucket_id = { bucket: { user: 'ann' } };
  const { bucket_action: decoded } = streamQuotas.responseDeserialize(writeBucketActions(actions));
  const assignment = (seconds: number, strategy: object) => ({
    assignment_time_to_live: { seconds, nanos: 0 },
    rate_limit_strategy: expect.objectContaining(strategy),
  });
  expect(decoded).toEqual([
    expect.objectContaining({ bucket_id, quota_assignment_action: assignment(60, { blanket_rule: 'ALLOW_ALL' }) }),
    expect.objectContaining({ bucket_id, quota_assignment_action: assignment(60, { blanket_rule: 'DENY_ALL' }) }),
    expect.objectContaining({
      bucket_id,
      quota_assignment_action: assignment(15, {
        token_bucket: {
          max_tokens: 4_000_000_000,
          tokens_per_fill: { value: 7 },
          fill_interval: { seconds: 11, nanos: 11 },
        },
      }),
    }),
    expect.objectContaining({ bucket_id, abandon_action: {} }),
  ]);
});
