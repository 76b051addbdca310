import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedis } from '../helpers/redis.ts';
import { startReference } from '../helpers/reference.ts';
import { closeAll, closeLater, openClient } from './service.ts';

const RULES = `
domain: reference
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 5 }
`;

afterEach(closeAll);

test('envoyproxy/ratelimit answers each request separately', async () => {
  const redis = await startRedis();
  closeLater(() => redis.stop());
  const folder = mkdtempSync(join(tmpdir(), 'reference-'));
  closeLater(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config', 'rules.yaml'), RULES);
  const service = await startReference({ folder, redisUrl: redis.url });
  closeLater(() => service.stop());
  const client = await openClient({ target: `127.0.0.1:${service.grpcPort}` });

  const decisions = await Promise.all(Array.from({ length: 6 }, () => client.limit('reference', { user: 'alice' })));

  expect(decisions.map(({ ok }) => ok).sort()).toEqual([false, true, true, true, true, true]);
  expect(decisions.find(({ ok }) => !ok)).toMatchObject({ limit: 5, windowMs: 3_600_000, rule: undefined });
  expect(client.stats()).toMatchObject({ failed: 0, servers: [{ takesBatches: false }] });
  expect(await client.limit('reference', { user: 'alice' })).toMatchObject({ ok: false, source: 'client_refusal' });
});
