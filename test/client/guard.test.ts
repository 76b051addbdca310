import { type Client, type Decision, type FailureKind, WeirUnavailable } from '../../client/src/index.ts';
import { createGuard } from '../../client/src/middleware/guard.ts';

const allowed: Decision = {
  ok: true,
  rule: undefined,
  name: undefined,
  limit: undefined,
  windowMs: undefined,
  remaining: undefined,
  resetMs: undefined,
  retryAfterMs: undefined,
  delayMs: undefined,
  source: undefined,
  descriptors: [],
  wouldRefuse: [],
  headers: [],
  error: undefined,
};

/** A client that gives this decision to all requests, and records their hits. */
function clientThat(decision: Decision) {
  const hits: unknown[] = [];
  const limit: Client['limit'] = async (_, __, options) => {
    hits.push(options?.hits);
    return decision;
  };
  return { client: { limit } as Client, hits }; // the only method that the guard calls
}

const origin = { peer: '192.0.2.1', forwardedFor: undefined };
const fails = (): number => {
  throw new Error('no usage');
};

test.each([
  ['is skipped', { skip: () => true }],
  ['has no key', { key: () => undefined }],
])('no cost after the response is requested for a request that %s', async (_, options) => {
  const { client, hits } = clientThat(allowed);
  const passage = await createGuard({ client, domain: 'demo', ...options })({}, origin);
  if (!passage.ok) throw new Error('refused');
  await passage.settle(fails);
  expect(hits).toEqual([]);
});

test('a cost function that throws counts as 0', async () => {
  const { client, hits } = clientThat(allowed);
  const passage = await createGuard({ client, domain: 'demo' })({}, origin);
  if (!passage.ok) throw new Error('refused');
  await passage.settle(fails);
  await passage.settle(() => 4);
  expect(hits).toEqual([1, 3]);
});

test.each<[FailureKind, boolean]>([
  ['invalid', false],
  ['rejected', true],
  ['unavailable', true],
])('with onError allow, a request whose call fails as %s passes: %s', async (kind, passes) => {
  const { client } = clientThat({ ...allowed, source: 'client_allow', error: new WeirUnavailable(kind, 'failed') });
  const passage = await createGuard({ client, domain: 'demo' })({}, origin);
  expect(passage).toMatchObject(passes ? { ok: true } : { ok: false, status: 400, fields: [] });
});
