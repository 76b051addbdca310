import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text as consumeText } from 'node:stream/consumers';
import type { Redis } from 'ioredis';
import { type Client, createClient, type Decision } from '../../client/src/index.ts';
import type { Clock } from '../../src/base/clock.ts';
import { apiRoutes } from '../../src/edge/http/api.ts';
import { startHttpServer } from '../../src/edge/http/server.ts';
import { type CallOutcome, createRlsService, type RlsService } from '../../src/edge/rls/service.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { type CounterKeys, type Counters, createCounterKeys, ownCounters } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { sharedCounters } from '../../src/engine/backends/shared-counters.ts';
import { createEngine } from '../../src/engine/create-engine.ts';
import type { Decider } from '../../src/engine/decide/decide.ts';
import type { Ledger } from '../../src/engine/ledger/ledger.ts';
import { formatProblem } from '../../src/engine/rules/read/problem.ts';
import { runtimeDirectory } from '../../src/engine/rules/reload/files.ts';
import { type LoadedRules, loadRules } from '../../src/engine/rules/reload/load.ts';
import { createStatistics, type Statistics } from '../../src/operate/observe/stats.ts';
import { limitHeaderNames } from '../../src/settings/headers.ts';
import { readValues } from '../../src/settings/values.ts';
import { callerWith } from '../helpers/caller.ts';
import { extrasOf } from '../helpers/extras.ts';
import { ledgerOf } from '../helpers/ledger.ts';
import { overloadOf } from '../helpers/overload.ts';
import { until } from '../helpers/until.ts';
import {
  type ClientCall,
  clientCallOf,
  compareKeys,
  fromDecision,
  fromWire,
  matches,
  type RecordedCase,
  type Step,
  toWire,
  withStarts,
} from './recorded-case.ts';

/** Kinds of steps that need a whole process, which other tests cover, or Redis with the other service's keys. */
const notPlayedHere = new Set([
  ...['xds', 'xds_first', 'xds_drop'],
  ...[
    'http',
    'health',
    'health_watch',
    'health_seen',
    'health_watch_close',
    'grpc',
    'signal',
    'exit',
    'output',
    'port_closed',
  ],
  ...['redis', 'memcached', 'fake_seen', 'wait_ready'],
]);

/** Whether the case has steps that can be played here, on a store other than memcached. */
export const isPlayable = ({ steps, memcached, fake_memcached }: RecordedCase): boolean =>
  !memcached && !fake_memcached && steps.some((step) => !notPlayedHere.has(step.do));

/** Whether all steps of a case can be played here. */
export const isPlayableWhole = (recorded: RecordedCase): boolean =>
  isPlayable(recorded) && recorded.steps.every((step) => !notPlayedHere.has(step.do));

/**
 * Whether a case can be played whole on the other service's keys in Redis. Its windows do not end while a clock stands
 * still, as those of a second do in Redis.
 */
export const isPlayableWithKeys = ({ steps, unit, env = {}, memcached, fake_memcached }: RecordedCase): boolean =>
  steps.some((step) => step.do === 'redis') &&
  steps.every((step) => step.do === 'redis' || !notPlayedHere.has(step.do)) &&
  !(unit === 'SECOND' || memcached || fake_memcached || env.REDIS_PERSECOND || env.EXPIRATION_JITTER_MAX_SECONDS);

/** Where a case counts. */
export interface StoreUnderTest {
  readonly backend: Backend;
  /** A connection to Redis in which the case counts under the other service's keys. */
  readonly redis?: Redis;
}

/**
 * Plays a case.
 *
 * @param openStore  undefined: requests are sent by a client with an engine, unless a client cannot express them
 * @returns the differences, a text for each
 */
export async function run(
  recorded: RecordedCase,
  configs: Readonly<Record<string, string>>,
  clock: Clock & { advance(ms: number): void },
  openStore: (() => Promise<StoreUnderTest>) | undefined,
): Promise<readonly string[]> {
  const store = openStore ? await openStore() : { backend: createMemoryBackend(clock, { maxCounters: 10_000 }) };
  const player = new Player(recorded, configs, clock, store);
  if (!openStore) await player.openEngine();
  const differences: string[] = [];
  try {
    await player.load();
    await player.untilLive();
    for (const [at, step] of recorded.steps.entries()) {
      if (notPlayedHere.has(step.do) && !(store.redis && step.do === 'redis')) continue;
      for (const difference of await player.play(step)) differences.push(`step ${at + 1} (${step.do}): ${difference}`);
    }
  } finally {
    await player.close();
  }
  return differences;
}

/** The ledger listens already. */
const NOBODY = { changed() {}, forgotten() {}, missed() {} };

class Player {
  private readonly folder = mkdtempSync(join(tmpdir(), 'recorded-'));
  private readonly configs: Readonly<Record<string, string>>;
  private readonly clock: Clock & { advance(ms: number): void };
  private readonly ledger: Ledger;
  private readonly store: Backend;
  private readonly redis: Redis | undefined;
  private readonly counters: Counters;
  private readonly startedMs = Date.now();
  private readonly statistics: Statistics;
  private service: RlsService;
  private client: Client | undefined;
  private readonly settings: ReturnType<typeof readValues>;
  private inForce: LoadedRules | undefined;
  /** The number of flushes, which is part of counter names, so that a flush gives new counters. */
  private flushes = 0;

  constructor(
    { env = {}, files = {} }: RecordedCase,
    configs: Readonly<Record<string, string>>,
    clock: Clock & { advance(ms: number): void },
    { backend, redis }: StoreUnderTest,
  ) {
    this.configs = configs;
    this.clock = clock;
    this.store = backend;
    this.redis = redis;
    const { BACKEND_TYPE: _, CONFIG_TYPE: __, ...others } = env;
    this.settings = readValues({
      RUNTIME_SUBDIRECTORY: 'ratelimit',
      RUNTIME_WATCH_ROOT: 'false',
      ...others,
      RUNTIME_ROOT: this.folder,
    });
    const isCached = this.settings.LOCAL_CACHE_SIZE_IN_BYTES > 0;
    this.ledger = ledgerOf(backend, { clock, monotonicMs: clock, denyCacheBytes: isCached ? 1_000_000 : 0 });
    this.statistics = createStatistics(this.settings.NEAR_LIMIT_RATIO);
    const own: CounterKeys = (...of) =>
      createCounterKeys(`${this.folder}${this.flushes}:`, { hashTag: 'domain' })(...of);
    const { CACHE_KEY_PREFIX: prefix } = this.settings;
    this.counters = redis
      ? sharedCounters({ prefix, own, jitterMaxSeconds: 0, clock, random: () => 0 })
      : ownCounters(own);
    this.write(files);
    this.service = this.createService();
  }

  /** Opens an engine with new counters, and a client that asks it. */
  async openEngine(): Promise<void> {
    const { clock, settings } = this;
    this.client?.close();
    const engine = await createEngine({
      rules: { tree: () => this.rules() },
      ...{ clock, monotonicMs: clock, spend: settings.spend },
      ...{ shadowMode: settings.SHADOW_MODE, quotaMode: settings.QUOTA_MODE },
    });
    this.client = createClient({ engine, timeoutMs: 60_000, onError: 'deny' });
    this.service = this.createService(engine.decider);
  }

  private rules() {
    return this.inForce?.ok ? this.inForce.rules : undefined;
  }

  async close(): Promise<void> {
    this.client?.close();
    await this.ledger.close();
    rmSync(this.folder, { recursive: true });
  }

  /** Waits for messages between instances: when the first arrives, cached refusals are dropped. */
  async untilLive(): Promise<void> {
    const invalidations = this.ledger.refusals && this.store.invalidations?.(NOBODY);
    if (!invalidations) return;
    await until('messages between instances arrive', () => invalidations.isLive());
    this.clock.advance(1); // refusals learnt at the same moment would be uncertain
  }

  async play(step: Step): Promise<readonly string[]> {
    switch (step.do) {
      case 'rls':
        return this.ask(step);
      case 'json':
        return this.post(step);
      case 'reload':
        return this.reload(step);
      case 'stats':
        return this.compareStatistics(step);
      case 'redis':
        return this.redis
          ? compareKeys(this.redis, JSON.parse(this.filled(JSON.stringify(step.expect))), this.startedMs)
          : [];
      case 'redis_cmd':
        return this.redis ? this.command(this.redis, step) : this.seed(step.args ?? []);
      case 'sleep':
        this.clock.advance(step.ms ?? 0);
        return [];
      default:
        throw new Error(`unknown step '${step.do}'`);
    }
  }

  private createService(decider: Decider = this.createDecider()): RlsService {
    const { settings } = this;
    return createRlsService(
      decider,
      extrasOf(
        { ...limitHeaderNames(settings), quotaMode: settings.QUOTA_MODE },
        { ofRequest: settings.RESPONSE_DYNAMIC_METADATA },
      ),
      {
        answered: ({ domain }, answer) => this.statistics.answered(domain, answer),
        failed: (_, cause) => this.statistics.failed(cause),
      },
    );
  }

  private createDecider(): Decider {
    const { settings } = this;
    return {
      rules: () => this.rules(),
      ledger: this.ledger,
      counters: this.counters,
      clock: this.clock,
      storeBudget: () => 10_000,
      shadowMode: settings.SHADOW_MODE,
      quotaMode: settings.QUOTA_MODE,
      spend: settings.spend,
    };
  }

  private write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.folder, 'ratelimit', this.settings.RUNTIME_APPDIRECTORY, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text.startsWith('@') ? (this.configs[text.slice(1)] ?? '') : text);
    }
  }

  async load(): Promise<LoadedRules> {
    mkdirSync(join(this.folder, 'ratelimit', this.settings.RUNTIME_APPDIRECTORY), { recursive: true });
    const source = 'runtime' in this.settings.rules ? runtimeDirectory(this.settings.rules.runtime) : undefined;
    const loaded = loadRules((await source?.list()) ?? [], { mergeDomains: this.settings.MERGE_DOMAIN_CONFIG });
    if (loaded.ok) this.inForce = loaded;
    return loaded;
  }

  private async reload({ write = {}, delete: gone = [], expect }: Step): Promise<readonly string[]> {
    for (const name of gone) rmSync(join(this.folder, 'ratelimit', this.settings.RUNTIME_APPDIRECTORY, name));
    this.write(write);
    const loaded = await this.load();
    const { outcome, error } = (expect ?? {}) as { readonly outcome?: string; readonly error?: string };
    const came = loaded.ok ? 'loaded' : 'rejected';
    if (outcome && outcome !== came) return [`wanted ${outcome} (${error ?? 'no error'}), came ${came}`];
    if (!error || loaded.ok) return [];
    const found = loaded.problems.some(({ file, message }) => `${file}: ${message}`.includes(error));
    return found ? [] : [`wanted the error '${error}', came ${loaded.problems.map(formatProblem).join('; ')}`];
  }

  private async ask(step: Step): Promise<readonly string[]> {
    const { request: asked = {}, repeat = 1, expect } = step;
    const call = this.client && clientCallOf(asked);
    if (this.client && call) return this.askByClient(this.client, call, step);
    let outcome: CallOutcome | undefined;
    for (let time = 0; time < repeat; time++) {
      outcome = await new Promise((resolve) => void this.service.shouldRateLimit(toWire(asked), callerWith(), resolve));
    }
    if (!expect || !outcome) return [];
    if ('error' in outcome)
      return this.differences({ grpc_message: expect.grpc_message }, { grpc_message: outcome.error.details });
    return this.differences(expect, fromWire(outcome.response));
  }

  private async askByClient(client: Client, call: ClientCall, { repeat = 1, expect }: Step) {
    let decision: Decision | undefined;
    for (let time = 0; time < repeat; time++)
      decision = await client.limit(call.domain, call.descriptors, { hits: call.hits });
    if (!expect || !decision) return [];
    if (decision.error)
      return this.differences({ grpc_message: expect.grpc_message }, { grpc_message: decision.error.message });
    const { response_headers_to_add, dynamic_metadata, ...answer } = expect; // an engine has neither
    return this.differences(answer, fromDecision(decision));
  }

  private async post({ body, method = 'POST', expect }: Step): Promise<readonly string[]> {
    const routes = apiRoutes(this.service, () => ({ ready: true, reasons: [] }), overloadOf());
    const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {});
    try {
      const sentText = typeof body === 'string' ? body : JSON.stringify(body);
      const headers = { 'content-length': Buffer.byteLength(sentText) };
      const sent = request({ host: '127.0.0.1', port: server.port, path: '/json', method, headers });
      sent.end(sentText);
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      const type = response.headers['content-type'];
      const text = await consumeText(response);
      const came = {
        status: response.statusCode,
        content_type: type,
        body: type === 'application/json' ? JSON.parse(text) : text,
      };
      return expect ? this.differences(expect, came) : [];
    } finally {
      await server.close(0);
    }
  }

  private compareStatistics({ expect, prefix: asked, gauges, timers }: Step): readonly string[] {
    if (this.client) return []; // an engine has none
    const prefix = 'ratelimit.service.rate_limit.';
    if ((asked ?? prefix) !== prefix || gauges || timers) return []; // these concern a whole process
    const came: Record<string, number> = {};
    for (const { domain, rule, ...counts } of this.statistics.rules()) {
      const named = { total_hits: counts.totalHits, within_limit: counts.withinLimit, near_limit: counts.nearLimit };
      const over = { over_limit: counts.overLimit, over_limit_with_local_cache: counts.overLimitWithLocalCache };
      const all = { ...named, ...over, shadow_mode: counts.shadowMode };
      for (const [name, count] of Object.entries(all))
        if (count > 0) came[`${prefix}${domain}.${rule}.${name}`] = count;
    }
    for (const [domain, count] of this.statistics.unknownDomains) came[`${prefix}${domain}.domain_not_found`] = count;
    const ours = Object.fromEntries(Object.entries(expect ?? {}).filter(([name]) => name.startsWith(prefix)));
    return this.differences(ours, came);
  }

  private async command(redis: Redis, { args = [] }: Step): Promise<readonly string[]> {
    const [name = '', ...others] = args.map((arg) => this.filled(String(arg)));
    await redis.call(name, ...others);
    return [];
  }

  private filled(text: string): string {
    return withStarts(text, this.clock());
  }

  /** Applies the recording's writes under the other service's keys in Redis as hits on our own counters. */
  private async seed([command, key, value]: readonly string[]): Promise<readonly string[]> {
    if (command === 'FLUSHALL') this.flushes++;
    if (command === 'FLUSHALL' && this.client) await this.openEngine();
    const [, domain, name = '', text = ''] = /^([^_]+)_([^_]+)_([^_]+)_\{start:/.exec(key ?? '') ?? [];
    if (command !== 'SET' || domain === undefined) return [];
    const before = this.statistics.rules();
    const counted = [...before].map((counts) => ({ ...counts }));
    await this.ask({
      do: 'rls',
      request: { domain, descriptors: [{ entries: [[name, text]], hits_addend: Number(value) }] },
    });
    for (const counts of this.statistics.rules()) {
      const known = counted.find(({ domain: of, rule }) => of === counts.domain && rule === counts.rule);
      Object.assign(counts, known ?? { totalHits: 0, withinLimit: 0, nearLimit: 0, overLimit: 0, shadowMode: 0 });
    }
    return [];
  }

  private differences(wanted: unknown, came: unknown): readonly string[] {
    return matches(wanted, came, this.clock())
      ? []
      : [`wanted ${JSON.stringify(wanted)}, came ${JSON.stringify(came)}`];
  }
}
