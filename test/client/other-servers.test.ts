import { startScripted } from './scripted-server.ts';
import { closeAll, openClient } from './service.ts';

afterEach(closeAll);

/** Starts a server other than Weir, which allows two hits for each user. @returns  its target */
async function startPlainServer(): Promise<string> {
  const counters = new Map<string, number>();
  const { target } = await startScripted({
    shouldRateLimit({ descriptors, hits_addend }) {
      const user = descriptors[0]?.entries[0]?.value ?? '';
      const count = (counters.get(user) ?? 0) + hits_addend;
      counters.set(user, count);
      const code = count > 2 ? 2 : 1;
      const current_limit = { name: '', requests_per_unit: 2, unit: 3 };
      const duration_until_reset = { seconds: 60, nanos: 0 };
      const status = { code, current_limit, limit_remaining: Math.max(0, 2 - count), duration_until_reset };
      return { overall_code: code, statuses: [status], response_headers_to_add: [] };
    },
  });
  return target;
}

test('a server without batches gets one call for each request, and is checked once for batch support', async () => {
  const client = await openClient({ target: await startPlainServer() });
  for (let turn = 0; turn < 3; turn++) {
    const decisions = await Promise.all(
      ['a', 'b', 'c'].map((user) => client.limit('demo', { user: `${user}${turn}` })),
    );
    expect(decisions.every(({ ok, remaining, error }) => ok && remaining === 1 && !error)).toBe(true);
  }
  expect(client.stats()).toMatchObject({ batches: 1, retries: 0, servers: [{ sent: 10, takesBatches: false }] });
});

test("an answer of another server leaves Weir's own fields undefined, and its refusals are cached", async () => {
  const client = await openClient({ target: await startPlainServer() });
  await client.limit('demo', { user: 'a' }, { hits: 2 });
  const refused = await client.limit('demo', { user: 'a' });
  expect(refused).toMatchObject({ ok: false, limit: 2, remaining: 0, windowMs: 3_600_000, resetMs: 60_000 });
  for (const field of ['rule', 'retryAfterMs', 'delayMs', 'source'] as const) expect(refused[field]).toBeUndefined();
  expect(await client.limit('demo', { user: 'a' })).toMatchObject({ ok: false, source: 'client_refusal' });
});
