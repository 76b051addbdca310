import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { type SentAction, strategyOf } from '../../helpers/quota-client.ts';
import { useQuotaService } from '../../helpers/quota-service.ts';

const RULES = `
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 64 } }
`;

const stage = useQuotaService(RULES);
const { launch, open } = stage;

const bucketOf = (actions: readonly SentAction[]) => strategyOf(actions)?.token_bucket;

test('after its stream breaks, the share of a proxy without a name counts until it expires, and then the proxy gets one again', async () => {
  const TTL_MS = 15_000;
  const short = await launch({ RLQS_TTL: '15s' });
  try {
    const before = open(undefined, short);
    const sentMs = performance.now();
    before.report({ user: 'gone' }, 1);
    const lost = bucketOf(await before.next())?.tokens_per_fill?.value ?? 0;
    before.close();
    const again = open(undefined, short);
    for (let units = 0; units < lost; ) {
      again.report({ user: 'gone' }, 600, 5);
      await sleep(250);
      while (again.waiting > 0) units = bucketOf(await again.next())?.tokens_per_fill?.value ?? 0;
      if (performance.now() - sentMs < TTL_MS) expect(lost + units).toBeLessThanOrEqual(6_000);
    }
  } finally {
    await short.stop();
  }
});
