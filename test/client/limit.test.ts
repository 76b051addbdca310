import { type CallOptions, type Decision, LimitExceeded, type WeirUnavailable } from '../../client/src/index.ts';
import { closeAll, openClient, RULES, type Service, startService, TIMEOUT_MS } from './service.ts';

let service: Service;
beforeAll(async () => {
  service = await startService(RULES);
});
afterAll(closeAll);

let nextUser = 0;
const newUser = (): string => `user-${nextUser++}`;

describe.each(['grpc', 'http'] as const)('a client over %s', (protocol) => {
  const open = (options = {}) => openClient({ target: service[protocol], ...options });

  test('gets the rule, the limit and exact times, if they are known', async () => {
    const client = await open();
    const user = newUser();
    const first = await client.limit('demo', { user });
    expect(first).toEqual<Decision>({
      ok: true,
      limited: true,
      because: undefined,
      rule: 'demo.user',
      name: 'per-user',
      limit: 5,
      windowMs: 86_400_000,
      remaining: 4,
      resetMs: expect.any(Number),
      unspentMs: expect.any(Number),
      retryAfterMs: undefined,
      delayMs: 0,
      source: 'backend',
      descriptors: [expect.objectContaining({ ok: true, rule: 'demo.user', limit: 5, remaining: 4 })],
      wouldRefuse: [],
      headers: [],
      error: undefined,
    });
    const refused = await client.limit('demo', { user }, { hits: 5 });
    expect(refused).toMatchObject({ ok: false, rule: 'demo.user', limit: 5, source: 'backend' });
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(86_400_000);
  });

  test('tells which limits would have refused', async () => {
    const client = await open();
    const both = [{ unknown: 'x' }, { trial: newUser() }];
    expect((await client.limit('demo', both)).wouldRefuse).toEqual([]);
    const limit = { descriptor: 1, rule: 'demo.trial', name: undefined, limit: '1 per day', reason: 'shadow' };
    expect(await client.limit('demo', both)).toMatchObject({ ok: true, wouldRefuse: [limit] });
  });

  test('reads counters with 0 hits, and refunds hits with a negative number', async () => {
    const client = await open();
    const user = newUser();
    await client.limit('demo', { user }, { hits: 5 });
    expect(await client.limit('demo', { user }, { hits: 0 })).toMatchObject({ remaining: 0 });
    await client.limit('demo', { user }, { hits: -2 });
    expect(await client.limit('demo', { user }, { hits: 0 })).toMatchObject({ remaining: 2 });
  });

  test('decides several descriptors together, and reports the one that refuses', async () => {
    const client = await open();
    const user = newUser();
    const both = [{ api_key: user }, { user }];
    expect(await client.limit('demo', both)).toMatchObject({ ok: true, rule: 'demo.user', remaining: 4 });
    const refused = await client.limit('demo', both, { hits: 6 });
    expect(refused).toMatchObject({ ok: false, rule: 'demo.user', descriptors: [{ ok: true }, { ok: false }] });
  });

  test('is allowed without a limit if no rule matches, or the rule has none', async () => {
    const client = await open();
    for (const descriptor of [{ unknown: 'x' }, { free: 1 }])
      expect(await client.limit('demo', descriptor)).toMatchObject({ ok: true, limit: undefined, error: undefined });
  });

  test('answers from a cached refusal until the request may pass, and sends requests with fewer hits', async () => {
    const client = await open();
    const user = newUser();
    await client.limit('demo', { user }, { hits: 4 });
    expect(await client.limit('demo', { user }, { hits: 3 })).toMatchObject({ ok: false, source: 'backend' });
    expect(await client.limit('demo', { user }, { hits: 3 })).toMatchObject({ ok: false, source: 'client_refusal' });
    expect(await client.limit('demo', { user }, { hits: 1 })).toMatchObject({ ok: true, source: 'backend' });
    expect(client.stats()).toMatchObject({ calls: 4, allowed: 2, refused: 2, rememberedRefusals: 1, failed: 0 });
  });

  test('sends requests again after hits have been refunded', async () => {
    const client = await open();
    const user = newUser();
    await client.limit('demo', { user }, { hits: 5 });
    expect(await client.limit('demo', { user })).toMatchObject({ ok: false });
    await client.limit('demo', { user }, { hits: -2 });
    expect(await client.limit('demo', { user })).toMatchObject({ ok: true, source: 'backend', remaining: 1 });
  });

  test('sends every request if caching of refusals is off', async () => {
    const client = await open({ refusals: false });
    const user = newUser();
    for (let calls = 0; calls < 2; calls++)
      expect(await client.limit('demo', { user }, { hits: 6 })).toMatchObject({
        source: expect.not.stringMatching('client'),
      });
  });

  test('throws LimitExceeded from require, which has the decision', async () => {
    const client = await open();
    const user = newUser();
    expect(await client.require('demo', { user }, { hits: 5 })).toMatchObject({ ok: true });
    const error: LimitExceeded = await client.require('demo', { user }).then(
      () => new Error('no error'),
      (thrown) => thrown,
    );
    expect(error).toBeInstanceOf(LimitExceeded);
    expect(error).toMatchObject({ domain: 'demo', decision: { ok: false, rule: 'demo.user' } });
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(error.message).toBe('the limit of demo.user in the domain demo is exceeded');
  });

  test.each([
    ['demo', { user: 'a' }, { limited: true, because: undefined }],
    ['demo', { free: 'a' }, { limited: false, because: 'the rule is unlimited' }],
    ['demo', { usr: 'a' }, { limited: false, because: 'no rule matches' }],
    ['dmeo', { user: 'a' }, { limited: false, because: 'no rules for the domain' }],
  ])('says whether a limit applies: %s %j', async (domain, descriptor, expected) => {
    const client = await open();
    expect(await client.limit(domain, descriptor, { hits: 0 })).toMatchObject({ ok: true, ...expected });
    expect(client.stats().withoutRule).toBe(/^no/.test(expected.because ?? '') ? 1 : 0);
  });

  test('rejects with the reason of a signal, before and during a call', async () => {
    const client = await open();
    await expect(client.limit('demo', { user: newUser() }, { signal: AbortSignal.abort('early') })).rejects.toBe(
      'early',
    );
    const controller = new AbortController();
    const call = client.limit('demo', { user: newUser() }, { signal: controller.signal });
    controller.abort(new Error('gave up'));
    await expect(call).rejects.toThrow('gave up');
    expect(client.stats()).toMatchObject({ aborted: 1 });
  });

  test.each([
    ['', { user: 'x' }, {}, "domain must be a name, got ''"],
    ['demo', {}, {}, 'expected a descriptor with at least one entry'],
    ['demo', [], {}, 'expected at least one descriptor'],
    ['demo', { user: 'x' }, { hits: 1.5 }, 'hits must be a whole number'],
    ['demo', { user: 'x' }, { timeout: 5 }, 'timeout: no such option; did you mean timeoutMs?'],
    ['demo', { user: 'x' }, { timeoutMs: 0 }, 'timeoutMs must be a number from 1'],
  ] as const)('rejects invalid arguments with a TypeError: %j %j %j', async (domain, descriptors, options, message) => {
    const client = await open();
    const call = client.limit(domain, descriptors as never, options as CallOptions);
    await expect(call).rejects.toThrow(TypeError);
    await expect(call).rejects.toThrow(message.replace("''", ''));
  });

  test('settles the calls that have no answer when it is closed', async () => {
    const client = await open({ onError: 'deny' });
    const call = client.limit('demo', { user: newUser() });
    client.close();
    const { error } = await call;
    expect((error as WeirUnavailable).kind).toBe('closed');
    expect(await client.limit('demo', { user: newUser() })).toMatchObject({ ok: false, source: 'client_deny' });
  });
});

test('the calls of one turn are sent as one batch, and decided separately', async () => {
  const client = await openClient({ target: service.grpc });
  const user = newUser();
  const decisions = await Promise.all(
    Array.from({ length: 100 }, (_, at) => client.limit('demo', at % 2 ? { user } : { free: at })),
  );
  expect(decisions.filter(({ ok }) => ok)).toHaveLength(55);
  expect(decisions.filter(({ ok }) => !ok).every(({ rule }) => rule === 'demo.user')).toBe(true);
  const { batches, batchedCalls, servers } = client.stats();
  expect({ batches, batchedCalls }).toEqual({ batches: 1, batchedCalls: 100 });
  expect(servers).toMatchObject([{ sent: 1, failed: 0, takesBatches: true, inFlight: 0 }]);
});

test('a call that waits longer than usual delays no call of the same turn', async () => {
  const client = await openClient({ target: service.grpc });
  await client.limit('demo', { slow: 'x' }, { hits: 5 });
  const hold = (hits: number) => client.limit('demo', { slow: 'x' }, { hits, timeoutMs: 2 * TIMEOUT_MS });
  const before = [hold(5), hold(5), hold(5)]; // so that the next one has to wait, even if it is sent a second late
  const held = hold(1);
  const others = await Promise.all([client.limit('demo', { free: 1 }), client.limit('demo', { free: 2 })]);
  expect(others.every(({ ok }) => ok)).toBe(true);
  const { ok, delayMs } = await held;
  expect(ok).toBe(true);
  expect(delayMs).toBeGreaterThan(0);
  await Promise.all(before);
  expect(client.stats()).toMatchObject({ batches: 1, batchedCalls: 2 });
});

test('calls are sent separately if batches are turned off', async () => {
  const client = await openClient({ target: service.grpc, batch: false });
  await Promise.all([client.limit('demo', { free: 1 }), client.limit('demo', { free: 2 })]);
  expect(client.stats()).toMatchObject({ batches: 0, servers: [{ sent: 2 }] });
});

test('texts of any characters reach the service unchanged', async () => {
  const client = await openClient({ target: service.grpc });
  const user = 'älice ✓ 😀\0"';
  await client.limit('demo', { user });
  const overHttp = await openClient({ target: service.http });
  expect(await overHttp.limit('demo', { user })).toMatchObject({ remaining: 3 });
});
