import { ProxyBucket } from '../../../src/parts/quotas/buckets.ts';

const bucketOf = (): ProxyBucket =>
  new ProxyBucket([{ key: 'name', value: 'a' }], { rules: undefined, revision: 0 }, { kind: 'allow' }, 1_000);

/** Reports of a bucket: the arrival time and contents of each. */
function reported(...reports: readonly (readonly [atMs: number, requests: number, allowed: number])[]) {
  const bucket = bucketOf();
  let beforeMs: number | undefined;
  for (const [atMs, requests, allowed] of reports) {
    bucket.noteUse({ pairs: bucket.pairs, elapsedMs: atMs - (beforeMs ?? atMs), requests, allowed }, atMs);
    beforeMs = atMs;
  }
  return { demand: bucket.demand, used: bucket.used };
}

test('the usage of a bucket is that of the interval between two reports', () => {
  expect(reported([1_000, 9, 9])).toEqual({ demand: -1, used: -1 });
  expect(reported([1_000, 9, 9], [3_000, 40, 10])).toEqual({ demand: 20, used: 5 });
});

test('reports that are too frequent for a rate are combined until they suffice', () => {
  expect(reported([1_000, 1, 1], [1_400, 40, 20])).toEqual({ demand: -1, used: -1 });
  expect(reported([1_000, 1, 1], [1_400, 40, 20], [1_800, 40, 20])).toEqual({ demand: 100, used: 50 });
  const next = [
    [1_000, 1, 1],
    [1_400, 40, 20],
    [1_800, 40, 20],
    [2_200, 80, 0],
    [2_600, 80, 0],
  ] as const;
  expect(reported(...next)).toEqual({ demand: 200, used: 0 });
});

test('a first report with an interval counts', () => {
  const bucket = bucketOf();
  bucket.noteUse({ pairs: bucket.pairs, elapsedMs: 300, requests: 30, allowed: 30 }, 1_000);
  bucket.noteUse({ pairs: bucket.pairs, elapsedMs: 300, requests: 30, allowed: 0 }, 1_300);
  expect(bucket).toMatchObject({ demand: 100, used: 50 });
});
