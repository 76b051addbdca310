import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type PageEnvoy, startPageEnvoy } from './envoy-page.ts';
import { answerAsAsked, bodyFor, type Dialect, dialects, INPUT_TOKENS, pathOf } from './llm-model.ts';
import { startRedis } from './redis.ts';
import { until } from './until.ts';
import { Upstream } from './upstream.ts';
import { asLocal, startWeir, type Weir } from './weir.ts';

const PAGE = fileURLToPath(new URL('../../docs/llm-tokens.md', import.meta.url));

/** What each request asks for at most, and what the page's configuration reserves without that. */
const MAX_TOKENS = 500;
const CEILING = 1_000;
const TTL_MS = 10_000;
/** Tenants whose limit is never reached, and those with a budget that is. */
const WIDE_TENANTS = 200;
const TIGHT_TENANTS = 5;
const TIGHT_LIMIT = 20_000;
/** Answers of the calls during which processes are killed take a few times as long. */
const PAUSE_MS = 100;
/** Calls on each path that no usage is read from. */
const PATH_CALLS = 10;
/** Node accepts one connection per turn of its event loop, which takes long with hundreds of clients in this process. */
const MODEL_CONNECTIONS = 20;

interface LlmRunOptions {
  /** Calls in all dialects; fewer if the time is over before. */
  readonly calls: number;
  readonly maxMs: number;
  readonly atOnce: number;
  /** Calls of one tenant each, during which Weir and Envoy are killed. */
  readonly killedCalls: number;
  readonly log?: (line: string) => void;
  /** Changes the configuration of the page. */
  readonly edit?: (config: string) => string;
  /** What the configuration reserves for the body of a request with `max_tokens`. Default: these. */
  readonly reserve?: (body: string) => number;
}

/** What became of the calls, in tokens: reported to clients, reserved, and charged at last. */
export interface LlmRun {
  readonly seconds: number;
  readonly calls: number;
  readonly finished: number;
  readonly failed: number;
  readonly aborted: number;
  readonly refused: number;
  /** Answered by Envoy with 500, since it had no answer of Weir. */
  readonly undecided: number;
  /** Tokens that undecided calls, and those longer than two ttl, may have reserved beside what was charged for them. */
  readonly doubtful: number;
  readonly reported: number;
  /** What aborted calls had reserved. */
  readonly reserved: number;
  readonly charged: number;
  /** Tenants whose charge differs from what their calls reported and left reserved. */
  readonly wrongTenants: readonly string[];
  readonly budget: { readonly limit: number; readonly mostCharged: number; readonly refused: number };
  readonly killed: KilledCalls;
  /** Seconds until a finding names the tenant of each path that no usage is read from. */
  readonly found: ReadonlyMap<string, number>;
}

/** Calls during which processes were killed, by what was charged. */
interface KilledCalls {
  readonly calls: number;
  readonly finished: number;
  /** Finished calls that were charged what they reported, what they had reserved, and anything else. */
  readonly exact: number;
  readonly asReserved: number;
  readonly wrong: number;
  /** Other calls that were charged what they had reserved or used, nothing, and anything else. */
  readonly unfinishedCharged: number;
  readonly unfinishedFree: number;
  readonly unfinishedWrong: number;
}

/** Weir with Redis, Envoy with the configuration of the page, and a model; the first two may be killed. */
class Stack {
  readonly agent: Agent;
  readonly #folder: string;
  readonly #redis: Awaited<ReturnType<typeof startRedis>>;
  readonly #model = new Upstream(answerAsAsked);
  readonly #options: LlmRunOptions;
  weir!: Weir;
  envoy!: PageEnvoy;

  private constructor(folder: string, redis: Awaited<ReturnType<typeof startRedis>>, options: LlmRunOptions) {
    this.#folder = folder;
    this.#redis = redis;
    this.#options = options;
    this.agent = new Agent({ keepAlive: true, maxSockets: options.atOnce });
  }

  static async start(options: LlmRunOptions): Promise<Stack> {
    const folder = await mkdtemp(join(tmpdir(), 'llm-'));
    await writeFile(join(folder, 'rules.yaml'), await lastingRules());
    const stack = new Stack(folder, await startRedis(), options);
    await stack.#model.listen();
    await stack.startWeir();
    await stack.startEnvoy();
    return stack;
  }

  async startWeir(port = 0): Promise<void> {
    const env = {
      BACKEND_TYPE: 'redis',
      REDIS_URL: this.#redis.url,
      STORE_TIMEOUT: '5s',
      ...(port && { GRPC_PORT: String(port) }),
    };
    this.weir = await startWeir(env, { args: ['--rules', join(this.#folder, 'rules.yaml')] });
  }

  async startEnvoy(): Promise<void> {
    const ports = { weirPort: this.weir.grpcPort, upstreamPort: this.#model.port };
    const { edit = (config) => config } = this.#options;
    const name = '- name: upstream\n';
    const bounds = `      circuit_breakers: { thresholds: [{ max_connections: ${MODEL_CONNECTIONS} }] }\n`;
    this.envoy = await startPageEnvoy('llm-tokens.md', ports, (page) => edit(page.replace(name, `${name}${bounds}`)));
    await until('Envoy has connected to Weir', async () => (await this.call({ tenant: 'first', tokens: 21 })) === 200);
  }

  /** Sends a call. @returns the status of a whole answer; undefined: it ended before */
  call(call: Call): Promise<number | undefined> {
    const { tenant, tokens, dialect = 'openai json', what = dialect, pauseMs = 0, aborts } = call;
    return new Promise<number | undefined>((resolve) => {
      const headers = {
        'content-type': 'application/json',
        ...{ 'x-tenant': tenant, 'x-what': what, 'x-tokens': tokens, 'x-pause': pauseMs },
      };
      const { port } = this.envoy;
      const options = { host: '127.0.0.1', port, path: pathOf(dialect), method: 'POST', agent: this.agent, headers };
      const sent = request(options, (answer) => {
        answer
          .resume()
          .once('end', () => resolve(answer.statusCode))
          .once('error', () => resolve(undefined))
          .once('close', () => resolve(undefined));
        if (aborts) sent.destroy();
      });
      sent.once('error', () => resolve(undefined)).end(bodyOf(call));
    });
  }

  /** Tokens that a call reserves. */
  reservedBy(call: Call): number {
    const { reserve = () => MAX_TOKENS } = this.#options;
    return call.hasMax === false ? CEILING : reserve(bodyOf(call));
  }

  /** Charged tokens of a tenant, and those on hold. */
  async standing(tenant: string): Promise<{ readonly charged: number; readonly onHold: number }> {
    const query = `domain=llm&descriptor=${encodeURIComponent(`tenant=${tenant}`)}`;
    const { counters } = (await this.#read(`/api/v1/counters?${query}`)) as {
      counters: readonly { used: number; onHold: number }[];
    }; // the shape of this operation
    const { used = 0, onHold = 0 } = counters[0] ?? {};
    return { charged: used - onHold, onHold };
  }

  /** Tenants whose lapsed reservations the status of the service names. */
  async lapsedTenants(): Promise<ReadonlySet<string>> {
    const { findings } = (await this.#read('/api/v1/status')) as {
      findings: readonly { problem: string }[];
    }; // the shape of this operation
    const names = findings.map(
      ({ problem }) => / reservations of one key .*; example tenant=([\w-]+)$/.exec(problem)?.[1],
    );
    return new Set(names.filter((name) => name !== undefined));
  }

  async #read(path: string): Promise<unknown> {
    const answer = await fetch(`http://127.0.0.1:${this.weir.debugPort}${path}`, { headers: asLocal(this.weir) });
    return JSON.parse(await answer.text());
  }

  async stop(): Promise<void> {
    this.agent.destroy();
    await Promise.all([this.envoy?.envoy.stop('SIGKILL'), this.weir?.stop('SIGKILL')]);
    this.#model.close();
    await this.#redis.stop();
    await rm(this.#folder, { recursive: true });
  }
}

interface Call {
  readonly tenant: string;
  readonly tokens: number;
  readonly dialect?: Dialect;
  /** What the model does. Default: it answers in the dialect. */
  readonly what?: string;
  readonly pauseMs?: number;
  readonly hasMax?: boolean;
  readonly aborts?: boolean;
}

const bodyOf = ({ dialect = 'openai json', hasMax = true }: Call): string =>
  hasMax ? bodyFor(dialect, MAX_TOKENS) : '{}';

/** The rules of the page, with windows that do not end during a run, and a budget for some tenants. */
async function lastingRules(): Promise<string> {
  const [, rules = ''] = /```yaml\n(domain: llm[\s\S]*?)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
  const lasting = rules
    .replace('unit: minute', 'unit: year')
    .replace('ttl: 60s', `ttl: ${TTL_MS / 1_000}s`)
    .replace(', estimate: p95', '');
  const [head = '', node = ''] = lasting.split(/(?= {2}- key: tenant\n)/);
  const limited = (limit: number): string => node.replace('requests_per_unit: 100000', `requests_per_unit: ${limit}`);
  const tight = limited(TIGHT_LIMIT).replace('key: tenant\n', 'key: tenant\n    value: tight-*\n');
  return `${head}${tight}${limited(4_000_000_000)}`;
}

/** Sends calls, so many at once, until there are no more, or the time is over. @returns how many were sent */
async function inParallel(atOnce: number, next: (at: number) => Promise<unknown> | undefined): Promise<number> {
  let at = 0;
  const client = async (): Promise<void> => {
    for (;;) {
      const call = next(at);
      if (!call) return;
      at++;
      await call;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return at;
}

/** A call by its number: most finish, some fail or are aborted. */
function callAt(at: number): Call {
  const dialect = dialects[at % dialects.length] ?? 'openai json';
  const tenant = at % 10 === 9 ? `tight-${at % TIGHT_TENANTS}` : `wide-${at % WIDE_TENANTS}`;
  const tokens = INPUT_TOKENS + 1 + ((at * 7_919) % (MAX_TOKENS - INPUT_TOKENS));
  const plain = { tenant, dialect, tokens, hasMax: at % 11 !== 5 };
  if (at % 100 === 7) return { ...plain, what: 'hang', aborts: true };
  return at % 20 === 3 ? { ...plain, what: 'fail' } : plain;
}

/** Charges language model calls through a real Envoy, and compares what was charged with what was reported. */
export async function runLlm(options: LlmRunOptions): Promise<LlmRun> {
  const { calls, maxMs, atOnce, killedCalls, log = () => {} } = options;
  const stack = await Stack.start(options);
  try {
    const begunMs = performance.now();
    const endMs = begunMs + maxMs;
    const expected = new Map<string, Expected>();
    const sums = { finished: 0, failed: 0, aborted: 0, refused: 0, undecided: 0 };
    let tightRefused = 0;
    const send = async (at: number): Promise<void> => {
      const call = callAt(at);
      const own = expected.get(call.tenant) ?? { reported: 0, reserved: 0, doubtful: 0 };
      expected.set(call.tenant, own);
      const sentAtMs = performance.now();
      const status = await stack.call(call);
      const isUnknown = performance.now() - sentAtMs > 2 * TTL_MS; // its commit does not correct what has lapsed
      const outcome = call.aborts && status === undefined ? 'aborted' : outcomes.get(status);
      if (!outcome) throw new Error(`call ${at} (${JSON.stringify(call)}) ended with ${status}`);
      sums[outcome]++;
      if (outcome === 'finished') own.reported += call.tokens;
      if (outcome === 'aborted') own.reserved += stack.reservedBy(call);
      if (outcome === 'undecided' || isUnknown) own.doubtful += stack.reservedBy(call);
      if (outcome === 'refused' && call.tenant.startsWith('tight')) tightRefused++;
    };
    const sent = await inParallel(atOnce, (at) => (at < calls && performance.now() < endMs ? send(at) : undefined));
    const seconds = (performance.now() - begunMs) / 1_000;
    log(`${sent} calls in ${Math.round(seconds)} s: ${JSON.stringify(sums)}`);
    const judged = await judgeTenants(stack, expected);
    log(`wrong tenants: ${judged.wrongTenants.join(', ') || 'none'}`);
    const killed = await callWhileKilling(stack, killedCalls, atOnce);
    log(`during kills: ${JSON.stringify(killed)}`);
    const found = await findPaths(stack);
    log(`found: ${JSON.stringify([...found])}`);
    const { mostTight, ...charges } = judged;
    const budget = { limit: TIGHT_LIMIT, mostCharged: mostTight, refused: tightRefused };
    return { seconds, calls: sent, ...sums, ...charges, budget, killed, found };
  } finally {
    await stack.stop();
  }
}

const outcomes: ReadonlyMap<number | undefined, 'finished' | 'failed' | 'refused' | 'undecided'> = new Map([
  [200, 'finished'],
  [503, 'failed'],
  [429, 'refused'],
  [500, 'undecided'],
]);

/** Tokens of a tenant's calls: see {@link LlmRun}. */
interface Expected {
  reported: number;
  reserved: number;
  doubtful: number;
}

/** Compares what tenants were charged with what their calls reported, or left reserved. */
async function judgeTenants(stack: Stack, expected: ReadonlyMap<string, Expected>) {
  const wrongTenants: string[] = [];
  const total = { reported: 0, reserved: 0, doubtful: 0, charged: 0, mostTight: 0 };
  for (const [tenant, { reported, reserved, doubtful }] of expected) {
    let charged = 0;
    const isSettled = async (): Promise<boolean> => {
      const now = await stack.standing(tenant);
      charged = now.charged;
      return now.onHold === 0;
    };
    await until(`reservations of ${tenant} have ended`, isSettled);
    const beyond = charged - reported - reserved;
    if (beyond < 0 || beyond > doubtful) wrongTenants.push(`${tenant}: ${charged}, not ${reported} + ${reserved}`);
    total.reported += reported;
    total.reserved += reserved;
    total.doubtful += doubtful;
    total.charged += charged;
    if (tenant.startsWith('tight')) total.mostTight = Math.max(total.mostTight, charged);
  }
  return { ...total, wrongTenants };
}

/** Kills Weir, then Envoy, among calls of one tenant each. */
async function callWhileKilling(stack: Stack, calls: number, atOnce: number): Promise<KilledCalls> {
  const statuses: (number | undefined)[] = [];
  const callOf = (at: number): Call => {
    const dialect = dialects[at % dialects.length] ?? 'openai json';
    return { tenant: `killed-${at}`, tokens: INPUT_TOKENS + 1 + (at % 400), dialect, pauseMs: PAUSE_MS };
  };
  let killing: Promise<void> | undefined;
  await inParallel(Math.min(atOnce, Math.ceil(calls / 8)), (at) => {
    if (at >= calls) return undefined;
    if (at === Math.floor(calls / 3)) killing = killWeir(stack);
    if (at === Math.floor((2 * calls) / 3)) killing = killing?.then(() => killEnvoy(stack));
    const sent = stack.call(callOf(at)).then(async (status) => {
      statuses[at] = status;
      if (status !== 200) await sleep(5 * PAUSE_MS); // it fails at once
    });
    return sent;
  });
  await killing;
  await sleep(TTL_MS);
  return judgeKilled(stack, statuses, callOf);
}

async function judgeKilled(
  stack: Stack,
  statuses: readonly (number | undefined)[],
  callOf: (at: number) => Call,
): Promise<KilledCalls> {
  const sums = {
    ...{ calls: statuses.length, finished: 0, exact: 0, asReserved: 0, wrong: 0 },
    ...{ unfinishedCharged: 0, unfinishedFree: 0, unfinishedWrong: 0 },
  };
  for (const [at, status] of statuses.entries()) {
    const call = callOf(at);
    const { charged, onHold } = await stack.standing(call.tenant);
    const isKept = charged === stack.reservedBy(call) && onHold === 0;
    const isExact = charged === call.tokens && onHold === 0;
    if (status === 200) {
      sums.finished++;
      sums[isExact ? 'exact' : isKept ? 'asReserved' : 'wrong']++;
    } else if (charged === 0 && onHold === 0) sums.unfinishedFree++;
    else sums[isKept || isExact ? 'unfinishedCharged' : 'unfinishedWrong']++;
  }
  return sums;
}

async function killWeir(stack: Stack): Promise<void> {
  const { grpcPort } = stack.weir;
  await stack.weir.stop('SIGKILL');
  await stack.startWeir(grpcPort);
}

async function killEnvoy(stack: Stack): Promise<void> {
  await stack.envoy.envoy.stop('SIGKILL');
  await stack.startEnvoy();
}

/** The paths on which Envoy finds no usage, by what the model or the client does. */
const paths: ReadonlyMap<string, Pick<Call, 'what' | 'aborts'>> = new Map([
  ['aborted', { what: 'hang', aborts: true }],
  ['compressed', { what: 'compressed' }],
  ['no-usage', { what: 'unknown' }],
]);

/** Seconds from the end of the ttl until a finding names the tenant of each path. */
async function findPaths(stack: Stack): Promise<ReadonlyMap<string, number>> {
  const open = [...paths].map(async ([name, how]) => {
    for (let at = 0; at < PATH_CALLS; at++) await stack.call({ tenant: name, tokens: 100, ...how });
  });
  const hanging = { tenant: 'killed', tokens: 100, what: 'hang' };
  const killed = Array.from({ length: PATH_CALLS }, () => stack.call(hanging));
  const held = PATH_CALLS * stack.reservedBy(hanging);
  await Promise.all(open);
  await until('all calls run', async () => (await stack.standing('killed')).onHold === held);
  await killEnvoy(stack);
  await Promise.all(killed);
  const lapsedAtMs = performance.now() + TTL_MS;
  const found = new Map<string, number>();
  await until('findings about all paths', async () => {
    for (const tenant of await stack.lapsedTenants())
      if ((paths.has(tenant) || tenant === 'killed') && !found.has(tenant))
        found.set(tenant, Math.max(Math.round((performance.now() - lapsedAtMs) / 100) / 10, 0));
    return found.size === paths.size + 1;
  });
  return found;
}
