import { EventEmitter, once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type PageEnvoy, startPageEnvoy } from '../helpers/envoy-page.ts';
import { answerIn, dialects, isDialect } from '../helpers/llm-model.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { requestStatus, Upstream } from '../helpers/upstream.ts';
import { asLocal, startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = fileURLToPath(new URL('../../docs/llm-tokens.md', import.meta.url));
const LIMIT = 100_000;
/** The estimate in the page's configuration. */
const ESTIMATE = 1_000;
const STREAMS = 100;
const TOKENS = 'x-tokens';

/**
 * A server that streams the requested number of tokens as events, and reports their number at the end. On request it
 * fails, waits until its tenant's requests may continue, or never ends.
 */
class Model extends Upstream {
  running = 0;
  most = 0;
  /** Lets the waiting requests of a tenant continue. */
  readonly continued = new EventEmitter({}).setMaxListeners(0);
  /** Tokens of completed streams, by tenant. */
  readonly used = new Map<string, number>();

  constructor() {
    super((asked, answer) => void this.#answer(asked, answer));
  }

  async #answer(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    this.most = Math.max(this.most, ++this.running);
    answer.once('close', () => this.running--);
    const { 'x-tenant': tenant, [TOKENS]: tokens, 'x-what': what } = asked.headers;
    if (isDialect(what)) {
      asked.resume();
      answerIn(what, answer, { tokens: 220 });
      return;
    }
    if (what === 'fail') {
      answer.writeHead(500).end('{"error": "overloaded"}');
      return;
    }
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    for (let word = 0; word < 3; word++) {
      answer.write(`data: {"choices": [{"delta": {"content": "word ${word} "}}]}\n\n`);
      await sleep(10 + Math.random() * 20);
    }
    if (what === 'hang') return;
    const name = String(tenant);
    if (what === 'wait') await once(this.continued, name);
    this.used.set(name, (this.used.get(name) ?? 0) + Number(tokens));
    answer.write(`data: {"choices": [], "usage": {"total_tokens": ${tokens}}}\n\n`);
    answer.end('data: [DONE]\n\n');
  }
}

let folder: string;
let redis: Redis;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rules-'));
  const [, rules = ''] = /```yaml\n(domain: llm[\s\S]*?)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
  const lasting = rules.replace('unit: minute', 'unit: year'); // no window ends during a test
  await writeFile(join(folder, 'rules.yaml'), lasting);
  const short = lasting.replace('ttl: 60s', 'ttl: 10s');
  await writeFile(join(folder, 'short.yaml'), short);
  redis = await startRedis();
});
afterAll(async () => {
  await redis.stop();
});

interface Stack extends PageEnvoy {
  readonly weir: Weir;
  readonly model: Model;
  readonly modelPort: number;
}

const stacks: Stack[] = [];
afterEach(() => Promise.all(stacks.splice(0).map(stopStack)));

const asItIs = (config: string): string => config;

async function startStack(env: Readonly<Record<string, string>>, rules = 'rules.yaml', edit = asItIs): Promise<Stack> {
  const model = new Model();
  const launched = startWeir({ ...env, STORE_TIMEOUT: '5s' }, { args: ['--rules', join(folder, rules)] });
  const [weir, modelPort] = await Promise.all([launched, model.listen()]);
  const started = await startPageEnvoy('llm-tokens.md', { weirPort: weir.grpcPort, upstreamPort: modelPort }, edit);
  const stack = { weir, model, modelPort, ...started };
  stacks.push(stack);
  await stack.envoy.waitFor(async () => (await chat(stack, { tenant: 'first', tokens: 1 })) === 200); // Envoy has connected to Weir
  return stack;
}

async function stopStack({ weir, envoy, model }: Stack): Promise<void> {
  await Promise.all([envoy.stop('SIGKILL'), weir.stop('SIGKILL')]);
  model.close();
}

interface Chat {
  readonly tenant: string;
  readonly tokens: number;
  readonly what?: 'fail' | 'hang' | 'wait';
  readonly abortAfterMs?: number;
}

function chat(
  { port }: Pick<Stack, 'port'>,
  { tenant, tokens, what, abortAfterMs }: Chat,
): Promise<number | undefined> {
  const headers = { 'x-tenant': tenant, [TOKENS]: String(tokens), ...(what && { 'x-what': what }) };
  return requestStatus(port, headers, abortAfterMs);
}

/** The charged hits of the tenant's counter, and those on hold. */
async function standing({ weir }: Pick<Stack, 'weir'>, tenant: string) {
  const query = `domain=llm&descriptor=${encodeURIComponent(`tenant=${tenant}`)}`;
  const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/counters?${query}`, { headers: asLocal(weir) });
  const { counters } = JSON.parse(await answer.text());
  const [{ used, onHold }] = counters;
  return { charged: used - onHold, onHold };
}

const settled = (stack: Stack, tenant: string, charged: number) =>
  stack.envoy.waitFor(async () => {
    const now = await standing(stack, tenant).catch(() => undefined); // no connection to the store yet
    return now?.charged === charged && now.onHold === 0;
  });

const stores = { memory: () => ({}), Redis: () => ({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url }) };

describe.each(Object.entries(stores))('counted in %s', (store, env) => {
  test(`a budget is never overspent by more than ${STREAMS} streams use beyond their reservations`, async () => {
    const stack = await startStack(env());
    const tenant = `${store}-busy`;
    const seen = new Map<number | undefined, number>();
    let [sent, overrun] = [0, 0];
    const client = async (): Promise<void> => {
      for (;;) {
        const tokens = 200 + Math.floor(Math.random() * 1_600); // up to 800 more than are reserved
        const status = await chat(stack, { tenant, tokens });
        seen.set(status, (seen.get(status) ?? 0) + 1);
        if (status === 200) overrun += Math.max(tokens - ESTIMATE, 0);
        if (++sent > 3_000 || status === 429) return;
      }
    };
    await Promise.all(Array.from({ length: STREAMS }, client));
    expect([...seen.keys()].toSorted()).toEqual([200, 429]);
    expect(stack.model.most).toBeGreaterThan(STREAMS / 4);
    const used = stack.model.used.get(tenant) ?? 0;
    await settled(stack, tenant, used);
    expect(used).toBeLessThanOrEqual(LIMIT + STREAMS * 800);
    expect(used).toBeLessThanOrEqual(LIMIT + overrun);
    expect(used).toBeGreaterThan(LIMIT * 0.8);
    const metrics = await (await fetch(`http://127.0.0.1:${stack.weir.debugPort}/metrics`)).text();
    expect(metrics).not.toMatch(/^weir_unmatched_total\{.*\} [1-9]/m); // a rule for each message
  });

  test('a failing upstream frees the reservation at once, and an abort stays charged with what it has reserved', async () => {
    const stack = await startStack(env(), 'short.yaml');
    const tenant = `${store}-broken`;
    expect(await chat(stack, { tenant, tokens: 500, what: 'fail' })).toBe(500);
    await settled(stack, tenant, 0);
    await chat(stack, { tenant, tokens: 500, what: 'hang', abortAfterMs: 50 });
    await stack.envoy.waitFor(() => stack.model.running === 0);
    expect(await standing(stack, tenant)).toEqual({ charged: 0, onHold: ESTIMATE });
    await settled(stack, tenant, ESTIMATE); // after the ttl
    expect(await chat(stack, { tenant, tokens: 700 })).toBe(200);
    await settled(stack, tenant, ESTIMATE + 700);
    const metrics = await (await fetch(`http://127.0.0.1:${stack.weir.debugPort}/metrics`)).text();
    expect(metrics).toMatch(new RegExp(`^weir_reservations_lapsed_hits_total\\{.*\\} ${ESTIMATE}$`, 'm'));
  });
});

test.each(dialects)('an answer in the dialect of %s is charged what it used', async (what) => {
  const stack = await startStack({});
  const send = async (tenant: string, body: string): Promise<number> => {
    const headers = { 'x-tenant': tenant, 'x-what': what, 'content-type': 'application/json' };
    return (await fetch(`http://127.0.0.1:${stack.port}/`, { method: 'POST', headers, body })).status;
  };
  for (let times = 0; times < 5; times++) expect(await send('asked', '{"max_tokens": 500}')).toBe(200);
  await settled(stack, 'asked', 1_100);
});

test('a request reserves its max_tokens, and the ceiling if it has none or chooses a senseless one', async () => {
  const stack = await startStack({});
  const bodies = [
    '{"max_tokens": 500}',
    '{"max_completion_tokens": 501}',
    '{"generationConfig": {"maxOutputTokens": 502}}',
  ];
  const others = ['{}', 'no JSON', '[1]', '{"max_tokens": 0}', '{"max_tokens": -5}', '{"max_tokens": 1e12}'];
  const reserved = [500, 501, 502, ...others.map(() => ESTIMATE)];
  for (const [at, body] of [...bodies, ...others, '{"max_tokens": "many"}'].entries()) {
    const abort = new AbortController();
    const headers = { 'x-tenant': `t${at}`, 'x-what': 'hang', 'content-type': 'application/json' };
    const url = `http://127.0.0.1:${stack.port}/`;
    const sent = fetch(url, { method: 'POST', headers, body, signal: abort.signal }).catch(() => undefined);
    await stack.envoy.waitFor(async () => (await standing(stack, `t${at}`).catch(() => undefined)) !== undefined);
    await stack.envoy.waitFor(async () => (await standing(stack, `t${at}`)).onHold === (reserved[at] ?? ESTIMATE));
    abort.abort();
    await sent;
  }
});

test('with clip, a tenant that uses more than it reserves is charged only its reservation', async () => {
  await writeFile(
    join(folder, 'clip.yaml'),
    (await readFile(join(folder, 'rules.yaml'), 'utf8')).replace('on_overrun: debt', 'on_overrun: clip'),
  );
  const stack = await startStack({}, 'clip.yaml');
  expect(await chat(stack, { tenant: 'clipped', tokens: 5_000 })).toBe(200);
  await settled(stack, 'clipped', ESTIMATE);
});

test('refused requests reserve nothing, and are charged nothing', async () => {
  const stack = await startStack({}, 'rules.yaml', (config) =>
    config.replace('<= 1000.0 ?', '<= 60000.0 ?').replace(': 1000)%', ': 60000)%'),
  );
  const first = chat(stack, { tenant: 'refused', tokens: 60_000, what: 'hang', abortAfterMs: 1_000 });
  await stack.envoy.waitFor(async () => (await standing(stack, 'refused')).onHold === 60_000);
  for (let times = 0; times < 5; times++) expect(await chat(stack, { tenant: 'refused', tokens: 1 })).toBe(429);
  expect(await standing(stack, 'refused')).toEqual({ charged: 0, onHold: 60_000 });
  await first;
});

test('tokens reserved by a killed Envoy stay charged', async () => {
  const stack = await startStack(stores.Redis(), 'short.yaml');
  const tenant = 'killed';
  const running = Array.from({ length: 20 }, () => chat(stack, { tenant, tokens: 100, what: 'hang' }));
  await stack.envoy.waitFor(async () => (await standing(stack, tenant)).onHold === 20 * ESTIMATE);
  await stack.envoy.stop('SIGKILL');
  await Promise.all(running);
  const ports = { weirPort: stack.weir.grpcPort, upstreamPort: stack.modelPort };
  const second = await startPageEnvoy('llm-tokens.md', ports, asItIs);
  const after = { ...stack, ...second };
  await settled(after, tenant, 20 * ESTIMATE); // after the ttl
  await second.envoy.waitFor(async () => (await chat(after, { tenant, tokens: 300 })) === 200);
  await second.envoy.stop('SIGKILL');
});

/** Ten streams that run until the returned function is called. */
async function waiting(stack: Stack, tenant: string): Promise<() => Promise<readonly (number | undefined)[]>> {
  const running = Array.from({ length: 10 }, () => chat(stack, { tenant, tokens: 1_200, what: 'wait' }));
  await stack.envoy.waitFor(() => stack.model.continued.listenerCount(tenant) === 10);
  return () => {
    stack.model.continued.emit(tenant);
    return Promise.all(running);
  };
}

test('streams that run while Weir is killed are charged by the next instance, and those that end meanwhile are charged what they have reserved', async () => {
  const stack = await startStack(stores.Redis(), 'short.yaml');
  const endMissed = await waiting(stack, 'missed');
  await stack.weir.stop('SIGKILL');
  expect(await endMissed()).toEqual(Array(10).fill(200)); // they were admitted before
  const startAgain = () => {
    const env = { ...stores.Redis(), STORE_TIMEOUT: '5s', GRPC_PORT: String(stack.weir.grpcPort) };
    return startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
  };
  const second = await startAgain();
  stacks.push({ ...stack, weir: second });
  await stack.envoy.waitFor(async () => (await chat(stack, { tenant: 'first', tokens: 1 })) === 200);
  await settled({ ...stack, weir: second }, 'missed', 10 * ESTIMATE); // after the ttl

  const endFound = await waiting(stack, 'found');
  await second.stop('SIGKILL');
  const third = await startAgain();
  stacks.push({ ...stack, weir: third });
  expect(await standing({ weir: third }, 'found')).toEqual({ charged: 0, onHold: 10 * ESTIMATE });
  await stack.envoy.waitFor(async () => (await chat(stack, { tenant: 'first', tokens: 1 })) === 200);
  expect(await endFound()).toEqual(Array(10).fill(200));
  await settled({ ...stack, weir: third }, 'found', 12_000);
});
