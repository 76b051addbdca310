import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Client, type Decision, type FailureKind, WeirUnavailable } from '../../client/src/index.ts';
import { createGuard } from '../../client/src/middleware/guard.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

const allowed: Decision = {
  ok: true,
  limited: true,
  because: undefined,
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

/** Runs the requests of three kinds in a process of their own. @returns  the warnings */
async function warningsOf(environment: string): Promise<readonly string[]> {
  const program = `
    import { createGuard } from './client/src/middleware/guard.ts';
    process.on('warning', ({ name, message }) => console.log(name, message));
    const decision = { ok: true, because: 'no rule matches', descriptors: [], headers: [] };
    const key = ({ name }) => ({ [name]: 'a' });
    const guard = createGuard({ client: { limit: async () => decision }, domain: 'demo', key });
    for (const name of ['usr', 'usr', 'path']) await guard({ name }, { peer: '192.0.2.1' });`;
  const args = ['--no-warnings', '--import', 'tsx', '--input-type', 'module', '--eval', program];
  const env = { ...process.env, NODE_ENV: environment };
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: PROJECT, env });
  return stdout.split('\n').slice(0, -1);
}

test('requests that no rule matches cause a warning for each kind of descriptors, and none in production', async () => {
  expect(await warningsOf('development')).toEqual([
    'WeirWarning requests with { usr } are not limited: no rule matches, in the domain demo',
    'WeirWarning requests with { path } are not limited: no rule matches, in the domain demo',
  ]);
  expect(await warningsOf('production')).toEqual([]);
});
