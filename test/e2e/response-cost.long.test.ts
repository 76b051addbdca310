import { EventEmitter, once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PageEnvoy, startPageEnvoy } from '../helpers/envoy-page.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { Upstream } from '../helpers/upstream.ts';
import { asLocal, startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = fileURLToPath(new URL('../../docs/response-cost.md', import.meta.url));
/** The size of the bucket, and the estimate in the page's configuration. */
const [BUCKET, ESTIMATE] = [1_000, 100];

/** Requests wait here until they may be answered. */
const continued = new EventEmitter().setMaxListeners(0);
let waiting = 0;

/** Answers with the status, the cost and the tokens that the request asks for, or without them. */
const upstream = new Upstream(async ({ headers }, answer) => {
  if (headers['x-wait']) {
    waiting++;
    await once(continued, 'continue');
    waiting--;
  }
  for (const name of ['cost', 'input-tokens', 'output-tokens']) {
    const value = headers[`x-answer-${name}`];
    if (value !== undefined) answer.setHeader(`x-${name}`, value);
  }
  answer.writeHead(Number(headers['x-answer-status'] ?? 200)).end('{}');
});

let folder: string;
let tokenActions: string;
let redis: Redis;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rules-'));
  const page = await readFile(PAGE, 'utf8');
  const [, rules = ''] = /```yaml\n(domain: graphql[\s\S]*?)```/.exec(page) ?? [];
  const [, budget = ''] = /```yaml\n(domain: models[\s\S]*?)```/.exec(page) ?? [];
  tokenActions = /```yaml\n# envoy: instead of[^\n]*\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  await writeFile(join(folder, 'budget.yaml'), budget);
  await writeFile(join(folder, 'page.yaml'), rules);
  await writeFile(join(folder, 'still.yaml'), rules.replace('unit: second', 'unit: year')); // nothing leaks in a test
  [redis] = await Promise.all([startRedis(), upstream.listen()]);
});
afterAll(async () => {
  upstream.close();
  await Promise.all([redis.stop(), rm(folder, { recursive: true })]);
});

interface Stack extends PageEnvoy {
  readonly weir: Weir;
}

const stacks: Stack[] = [];
afterEach(async () => {
  for (const { envoy, weir } of stacks.splice(0)) await Promise.all([envoy.stop('SIGKILL'), weir.stop('SIGKILL')]);
});

async function startStack(
  env: Readonly<Record<string, string>>,
  rules = 'still.yaml',
  edit: (config: string) => string = (config) => config,
): Promise<Stack> {
  const weir = await startWeir({ ...env, STORE_TIMEOUT: '5s' }, { args: ['--rules', join(folder, rules)] });
  const ports = { weirPort: weir.grpcPort, upstreamPort: upstream.port };
  const stack = { weir, ...(await startPageEnvoy('response-cost.md', ports, edit)) };
  stacks.push(stack);
  await stack.envoy.waitFor(async () => (await query(stack, 'first', { 'x-answer-cost': '0' })) === 200);
  return stack;
}

async function query({ port }: Stack, app: string, headers: Readonly<Record<string, string>>): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-app': app, ...headers } });
  await answer.text();
  return answer.status;
}

async function standing({ weir }: Stack, app: string) {
  const answer = await fetch(
    `http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=graphql&descriptor=app=${app}`,
    { headers: asLocal(weir) },
  );
  const { counters } = JSON.parse(await answer.text());
  const [{ used, onHold }] = counters;
  return { charged: used - onHold, onHold };
}

const settled = (stack: Stack, app: string, charged: number) =>
  stack.envoy.waitFor(async () => {
    const now = await standing(stack, app);
    return now.charged === charged && now.onHold === 0;
  });

const stores = { memory: () => ({}), Redis: () => ({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url }) };

describe.each(Object.entries(stores))('counted in %s', (store, env) => {
  test('a request is charged what its response says, and nothing if it fails', async () => {
    const stack = await startStack(env());
    const app = `${store}-app`;
    let charged = 0;
    for (const [cost, status, costs] of [
      ['12', 200, 12], // the rest of the estimate is returned
      ['0', 200, 0],
      ['340', 200, 340], // more than the estimate
      ['40', 503, 0], // although it has a cost
      ['7', 404, 7],
    ] as const) {
      expect(await query(stack, app, { 'x-answer-cost': cost, 'x-answer-status': String(status) })).toBe(status);
      charged += costs;
      await settled(stack, app, charged);
    }
    expect(await query(stack, app, {})).toBe(200); // without a cost its reservation lasts for the ttl
    expect(await standing(stack, app)).toEqual({ charged, onHold: ESTIMATE });
  });

  test('requests beyond the bucket are refused while others hold their estimates, and cost nothing', async () => {
    const stack = await startStack(env());
    const app = `${store}-busy`;
    const held = Array.from({ length: BUCKET / ESTIMATE }, () =>
      query(stack, app, { 'x-wait': 'yes', 'x-answer-cost': '5' }),
    );
    await stack.envoy.waitFor(() => waiting === held.length);
    expect(await query(stack, app, { 'x-answer-cost': '1' })).toBe(429);
    continued.emit('continue');
    expect(new Set(await Promise.all(held))).toEqual(new Set([200]));
    await settled(stack, app, 5 * held.length);
    expect(await query(stack, app, { 'x-answer-cost': '1' })).toBe(200);
  });
});

test('the bucket of the page leaks, so that a spent one admits again', async () => {
  const stack = await startStack({}, 'page.yaml');
  expect(await query(stack, 'leaking', { 'x-answer-cost': '2000' })).toBe(200);
  await stack.envoy.waitFor(async () => (await standing(stack, 'leaking')).onHold === 0);
  expect(await query(stack, 'leaking', { 'x-answer-cost': '1' })).toBe(429);
  await stack.envoy.waitFor(async () => (await query(stack, 'leaking', { 'x-answer-cost': '1' })) === 200);
});

/** The configuration with the page's actions in place of the last one. */
function withTokens(config: string): string {
  const last = /( *)- actions: # commits the cost[\s\S]*?apply_on_stream_done: true\n/;
  expect(config).toMatch(last);
  return config
    .replace(last, (_, indent: string) => tokenActions.replaceAll(/^/gm, indent).trimEnd().concat('\n'))
    .replace('domain: graphql', 'domain: models');
}

test('a budget in money is charged the prices of input and output tokens, and refuses when it is spent', async () => {
  const stack = await startStack({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url }, 'budget.yaml', withTokens);
  const ask = (model: string, input: number, output: number, status = 200) =>
    query(stack, 'shop', {
      'x-model': model,
      'x-answer-input-tokens': String(input),
      'x-answer-output-tokens': String(output),
      'x-answer-status': String(status),
    });
  const spent = async () => {
    const { debugPort } = stack.weir;
    const url = `http://127.0.0.1:${debugPort}/api/v1/counters?domain=models&descriptor=app=shop`;
    const { counters } = JSON.parse(await (await fetch(url, { headers: asLocal({ debugPort }) })).text());
    const [{ used, onHold = 0, currency }] = counters;
    return `${(used - onHold) / 1e9} ${currency}, ${onHold}`;
  };
  const spends = (amount: string) => stack.envoy.waitFor(async () => (await spent()) === `${amount} USD, 0`);
  expect(await ask('small-2', 1_234, 567)).toBe(200);
  await spends('0.0005253');
  expect(await ask('large', 10_000_000, 45_000_000)).toBe(200);
  await spends('475.0005253');
  expect(await ask('large', 1, 1, 503)).toBe(503); // costs nothing
  await spends('475.0005253');
  expect(await ask('large', 0, 3_000_000)).toBe(200); // reserves what fits, and costs more
  await spends('505.0005253');
  expect(await ask('small-2', 1, 1)).toBe(429);
});
