import type { status } from '../../../src/h2/grpc/grpc-status.ts';
import type { BucketAction } from '../../../src/parts/quotas/messages.ts';
import { QuotaService, shareTerms } from '../../../src/parts/quotas/quota-service.ts';
import { MemoryShares } from '../../../src/parts/quotas/share-store.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { streamQuotas } from '../../helpers/quota-client.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const RATE = 1_000;
const rules = rulesFrom(`
domain: d
descriptors: [{ key: k, rate_limit: { unit: second, requests_per_unit: ${RATE} } }]
`);
const terms = shareTerms(60_000);

const reportOf = (requests: number): Buffer =>
  streamQuotas.requestSerialize({
    domain: 'd',
    bucket_quota_usages: [
      {
        bucket_id: { bucket: { k: 'v' } },
        time_elapsed: { seconds: 0 },
        num_requests_allowed: requests,
        num_requests_denied: 0,
      },
    ],
  });

/** A service whose proxies use one bucket. */
function start() {
  const clock = fakeClock();
  const service = new QuotaService({
    ...{ rules: () => rules, keyOf: () => 'pool', unknown: 'deny', domains: [], maxBuckets: 10, terms },
    ...{ monotonicMs: clock, onUnavailable: () => {}, shares: new MemoryShares(clock, terms, 2 ** 20) },
  });
  const open = (name: string) => {
    let perSecond = 0;
    const call = {
      ...{ charge: () => {}, end: () => {}, fail: (_: status, details: string) => expect(details).toBe('') },
      send([action]: readonly BucketAction[]) {
        if (action?.kind === 'token_bucket') perSecond = (action.tokensPerFill * 1_000) / action.fillMs;
      },
    };
    const receiver = service.open(call, name);
    return { report: (requests: number) => receiver.message(reportOf(requests)), perSecond: () => perSecond };
  };
  return { clock, open, handled: () => new Promise((resolve) => setImmediate(() => setImmediate(resolve))) };
}

test('a proxy that reports every 400 ms gets a share of its demand, and another proxy gets the rest', async () => {
  const { clock, open, handled } = start();
  const [often, busy] = [open('often'), open('busy')];
  for (let atMs = 0; atMs < 180_000; atMs += 400) {
    often.report(40); // 100 a second
    if (atMs % 5_200 === 0) busy.report(5_200);
    await handled();
    clock.advance(400);
  }
  expect(often.perSecond()).toBeGreaterThan(100);
  expect(often.perSecond()).toBeLessThan(200);
  expect(busy.perSecond()).toBeGreaterThan(0.75 * RATE);
});

test('requests reported right after another report are part of the demand', async () => {
  const { clock, open, handled } = start();
  const [bursty, busy] = [open('bursty'), open('busy')];
  for (let atMs = 0; atMs < 180_000; atMs += 5_000) {
    bursty.report(0);
    busy.report(5_000);
    await handled();
    clock.advance(300);
    bursty.report(2_000); // 400 a second
    await handled();
    clock.advance(4_700);
  }
  expect(bursty.perSecond()).toBeGreaterThan(380);
});
