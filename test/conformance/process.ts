import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text as consumeText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceError } from '@grpc/grpc-js';
import { Redis as RedisClient } from 'ioredis';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import { type Unit, unitMs } from '../../src/engine/algorithms/limit.ts';
import { type ControlPlane, type Resource, startControlPlane } from '../helpers/control-plane.ts';
import { createClient, type GrpcClient } from '../helpers/grpc-client.ts';
import type { Memcached } from '../helpers/memcached.ts';
import { accepts, freePort, type Running, start } from '../helpers/process.ts';
import type { Redis } from '../helpers/redis.ts';
import { type StatisticsServer, startUdpStatsd } from '../helpers/statsd.ts';
import { isOpen, MAIN } from '../helpers/weir.ts';
import {
  compareKeys,
  differ,
  fromWire,
  matches,
  type RecordedCase,
  type RecordedRequest,
  type Step,
  toWire,
  withStarts,
} from './recorded-case.ts';

/** Servers that cases share, one case at a time. */
export interface Backends {
  readonly redis: Redis;
  readonly memcached: Memcached;
}

/** A case begins only if its window still lasts this long. */
const MARGIN_MS = 8_000;
/** How long a case is repeated if its window ended during it. */
const REPEAT_MS = 150_000;
/** How long to wait for an effect. */
const PATIENCE_MS = 30_000;
/** If a difference from the recording is expected. */
const SHORT_PATIENCE_MS = 1_500;
const POLL_MS = 20;

/** Several processes may start at once. */
const START_TIMEOUT_MS = 100_000;

/** Several flushes of statistics. */
const SETTLE_MS = 600;

/**
 * Plays a case against a process of the built service. @returns the differences, a text for each
 *
 * @param untilFirst  stops at the first difference, since one is expected
 */
export async function playInProcess(
  recorded: RecordedCase,
  configs: Readonly<Record<string, string>>,
  backends: Backends,
  { untilFirst }: { readonly untilFirst: boolean },
): Promise<readonly string[]> {
  for (const endMs = Date.now() + REPEAT_MS; ; ) {
    const player = new ProcessPlayer(recorded, configs, backends, untilFirst);
    const differences: string[] = [];
    try {
      await player.open();
      for (const [at, step] of recorded.steps.entries()) {
        for (const difference of await player.play(step))
          differences.push(`step ${at + 1} (${step.do}): ${difference}`);
        if (untilFirst && differences.length > 0) break;
      }
    } catch (error) {
      differences.push(`${error instanceof Error ? error.stack : error}`);
    } finally {
      await player.close();
    }
    if (differences.length === 0 || !player.windowHasChanged() || Date.now() > endMs) return differences;
  }
}

/** Our codes for errors that the recorded service answers with UNKNOWN: INVALID_ARGUMENT, INTERNAL, UNAVAILABLE. */
const codesForUnknown = [3, 13, 14];

class ProcessPlayer {
  private readonly recorded: RecordedCase;
  private readonly configs: Readonly<Record<string, string>>;
  private readonly backends: Backends;
  private readonly untilFirst: boolean;
  private readonly folder = mkdtempSync(join(tmpdir(), 'recorded-'));
  private readonly closing: (() => unknown)[] = [];
  private ports: Readonly<Record<string, number>> = {};
  private process: Running | undefined;
  private statsd: StatisticsServer | undefined;
  private controlPlane: ControlPlane | undefined;
  private client: GrpcClient | undefined;
  private fakeSeen: string[] = [];
  private watched: string[] = [];
  private watching: ReturnType<GrpcClient['watch']> | undefined;
  private startedMs = 0;
  /** The beginning of the last step that may have changed counters. */
  private changedMs = 0;

  constructor(
    recorded: RecordedCase,
    configs: Readonly<Record<string, string>>,
    backends: Backends,
    untilFirst: boolean,
  ) {
    this.untilFirst = untilFirst;
    this.recorded = recorded;
    this.configs = configs;
    this.backends = backends;
  }

  async open(): Promise<void> {
    const { redis, memcached } = this.backends;
    await this.flush();
    this.statsd = await startUdpStatsd();
    const fake = this.recorded.fake_memcached ? await this.startFake() : 0;
    if (this.recorded.xds) this.controlPlane = await startControlPlane();
    const [grpc, http, debug, prometheus] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
    const named = {
      REDIS: redis.port,
      MEMCACHED: memcached.port,
      FAKE: fake,
      PROMETHEUS: prometheus,
      XDS: this.controlPlane?.port ?? 0,
    };
    this.ports = { ...named, grpc, http, debug, prometheus };
    this.write(this.recorded.files ?? {});
    mkdirSync(this.configFolder, { recursive: true });
    const env = Object.entries(this.recorded.env ?? {}).map(([name, value]) => [name, this.filled(value)]);
    this.process = await start(process.execPath, [MAIN, 'serve'], {
      name: 'weir',
      env: { PATH: process.env.PATH, ...this.base(), ...Object.fromEntries(env) },
    });
    this.client = createClient(`127.0.0.1:${grpc}`);
    if (!this.recorded.no_wait)
      await this.process.waitFor(async (output) => isOpen(output) && accepts(grpc), START_TIMEOUT_MS);
    await this.awaitWindow();
  }

  async close(): Promise<void> {
    this.client?.close();
    await this.process?.stop('SIGKILL');
    this.controlPlane?.stop();
    for (const close of this.closing) await close();
    await this.statsd?.close();
    rmSync(this.folder, { recursive: true });
  }

  windowHasChanged(): boolean {
    const { unit } = this.recorded;
    return unit !== undefined && startOf(unit, this.startedMs) !== startOf(unit, Date.now());
  }

  async play(step: Step): Promise<readonly string[]> {
    const { expect } = step;
    if (step.do !== 'redis') this.changedMs = Date.now();
    switch (step.do) {
      case 'rls':
        return this.ask(step);
      case 'json':
        return this.compare(expect, await this.json(step));
      case 'http':
        return this.page(step);
      case 'health':
        return this.compare(expect, await this.orStatus(() => this.client?.check(step.service) ?? Promise.resolve({})));
      case 'grpc':
        return this.compare(
          expect,
          await this.orStatus(async () => {
            await this.client?.call(this.filled(String(step.method)));
            return { grpc_status: 0 };
          }),
        );
      case 'health_watch':
        this.watching = this.client?.watch(step.service).on('data', ({ status }) => this.watched.push(status));
        return [];
      case 'health_watch_close':
        this.watching?.cancel();
        return [];
      case 'health_seen':
        return this.eventually(expect, () => this.watched);
      case 'redis':
        return this.redisKeys(step);
      case 'redis_cmd':
        return this.withRedis(0, async (client) => {
          const [command = '', ...args] = (step.args ?? []).map((arg) => this.filled(String(arg)));
          await client.call(command, ...args);
          return [];
        });
      case 'memcached':
        return this.memcachedKeys(step);
      case 'fake_seen':
        return this.eventually(expect, () => this.fakeSeen);
      case 'stats':
        return this.statistics(step);
      case 'reload':
        return this.reload(step);
      case 'output':
        return this.eventually(expect, () => ({ found: this.said(this.filled(step.contains ?? '')) }));
      case 'signal':
        this.process?.kill(step.signal ?? 'SIGTERM');
        return [];
      case 'exit':
        return this.exit(step);
      case 'port_closed':
        return this.compare(expect, { open: await this.opens(this.ports[step.port ?? ''] ?? 0) });
      case 'xds':
        return this.snapshot(step);
      case 'xds_first':
        return this.eventually(expect, () => this.controlPlane?.first());
      case 'xds_drop':
        await this.controlPlane?.drop();
        return [];
      case 'wait_ready':
        return this.eventually(expect, async () => ({ ready: await accepts(this.ports.grpc ?? 0) }));
      case 'sleep':
        await sleep(step.ms);
        return [];
      default:
        return [`the step is not known`];
    }
  }

  /** Whether a port is open; if a difference from the recording is expected, waits until it is. */
  private async opens(port: number): Promise<boolean> {
    for (const endMs = Date.now() + START_TIMEOUT_MS; this.untilFirst && Date.now() < endMs; ) {
      if (await accepts(port)) return true;
      await sleep(POLL_MS);
    }
    return accepts(port);
  }

  private get configFolder(): string {
    const { RUNTIME_SUBDIRECTORY: below = 'ratelimit', RUNTIME_APPDIRECTORY: app = 'config' } = this.recorded.env ?? {};
    return join(this.folder, below === 'nowhere' ? 'ratelimit' : below, app);
  }

  private base(): Record<string, string> {
    const { redis, statsd } = { redis: this.backends.redis, statsd: this.statsd };
    const { grpc, http, debug } = this.ports;
    return {
      HOST: '127.0.0.1',
      GRPC_HOST: '127.0.0.1',
      DEBUG_HOST: '127.0.0.1',
      GRPC_PORT: String(grpc),
      PORT: String(http),
      DEBUG_PORT: String(debug),
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: redis.url,
      COUNTER_KEYS: 'reference',
      RUNTIME_ROOT: this.folder,
      RUNTIME_SUBDIRECTORY: 'ratelimit',
      RUNTIME_WATCH_ROOT: 'false',
      STORE_TIMEOUT: '10s', // no case tests it, and the machine may be busy
      EXPIRATION_JITTER_MAX_SECONDS: '0',
      LOG_LEVEL: 'WARN',
      LOG_FORMAT: 'json',
      ...(this.recorded.env?.USE_STATSD === undefined && { USE_STATSD: 'true' }),
      STATSD_PROTOCOL: 'udp',
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String(statsd?.port),
      STATS_FLUSH_INTERVAL: '100ms',
    };
  }

  /** The text with its placeholders replaced by ports and window starts. */
  private filled(text: string): string {
    const inPlace = text
      .replaceAll(/\{(\w+)_PORT\}/g, (token, name) => String(this.ports[name] ?? token))
      .replaceAll('{ROOT}', this.folder);
    return withStarts(inPlace, Date.now());
  }

  private async flush(): Promise<void> {
    await this.withRedis(0, async (client) => {
      await client.flushall();
      return [];
    });
    const { memcached } = this.backends;
    if (this.recorded.env?.BACKEND_TYPE === 'memcache') await memcached.restart();
  }

  private async awaitWindow(): Promise<void> {
    const { unit } = this.recorded;
    const leftMs = unit ? unitMs[unit] - (Date.now() % unitMs[unit]) : Number.POSITIVE_INFINITY;
    if (unit === 'SECOND' || leftMs < MARGIN_MS) await sleep(leftMs + 5);
    this.startedMs = Date.now();
  }

  private async ask({ request: asked = {}, repeat = 1, expect }: Step): Promise<readonly string[]> {
    let came: unknown;
    for (let time = 0; time < repeat; time++) {
      came = await this.orStatus(async () => fromWire((await this.client?.send(exactWire(asked))) as never)); // there is a client
    }
    return expect ? this.compare(expect, came) : [];
  }

  /** The result of a call, or the status of its failure. */
  private async orStatus(call: () => Promise<unknown>): Promise<unknown> {
    try {
      return await call();
    } catch (error) {
      const { code, details } = error as ServiceError; // a gRPC error
      return { grpc_status: code, grpc_message: details };
    }
  }

  private async json({ body, method = 'POST' }: Step) {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const { status, type, body: came } = await this.get('http', '/json', method, text);
    return { status, content_type: type, body: type === 'application/json' ? JSON.parse(came) : came };
  }

  private async get(port: string, path: string, method = 'GET', body = '') {
    const headers = { 'content-length': Buffer.byteLength(body) };
    const sent = request({ host: '127.0.0.1', port: this.ports[port], path, method, headers });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: response.statusCode, type: response.headers['content-type'], body: await consumeText(response) };
  }

  private page({ port = 'http', path = '/', method, lines, status_only, expect }: Step) {
    return this.eventually(expect, async () => {
      const { status, body } = await this.get(port, path, method);
      if (status_only) return { status };
      if (!lines) return { status, body };
      const pattern = typeof lines === 'string' ? new RegExp(lines) : /./;
      return {
        status,
        lines: body
          .split('\n')
          .filter((line) => line !== '' && pattern.test(line))
          .sort(),
      };
    });
  }

  private async withRedis<T>(db: number, use: (client: RedisClient) => Promise<T>): Promise<T> {
    const client = new RedisClient(this.backends.redis.port, '127.0.0.1', { db, replyMapping: 'legacy' });
    try {
      return await use(client);
    } finally {
      client.disconnect();
    }
  }

  private redisKeys({ db = 0, expect }: Step): Promise<readonly string[]> {
    const wanted = JSON.parse(this.filled(JSON.stringify(expect)));
    return this.withRedis(db, (client) => compareKeys(client, wanted, this.changedMs));
  }

  private memcachedKeys({ keys = [], expect }: Step): Promise<readonly string[]> {
    const wanted = JSON.parse(this.filled(JSON.stringify(expect)));
    return this.eventually(wanted, async () => {
      const found: Record<string, string> = {};
      for (const key of keys.map((one) => this.filled(one))) {
        const reply = await ask(this.backends.memcached.port, `get ${key}\r\n`);
        const [, value] = /^VALUE \S+ \d+ \d+\r\n(.*)\r\nEND/s.exec(reply) ?? [];
        if (value !== undefined) found[key] = value;
      }
      return found;
    });
  }

  private statistics({ expect, prefix = 'ratelimit.service.rate_limit.', gauges, timers }: Step) {
    const lines = () => (this.statsd?.lines() ?? []).map(parseLine).filter((line) => line !== undefined);
    if (timers !== undefined) {
      const names = () =>
        lines().flatMap(({ name, kind }) => (kind === 'ms' && name.startsWith(String(timers)) ? [name] : []));
      return this.eventually(expect, () => [...new Set(names())].sort());
    }
    if (gauges !== undefined) {
      const pattern = new RegExp(String(gauges));
      const told = () =>
        lines().flatMap(({ name, kind, value }) => (kind === 'g' && pattern.test(name) ? [[name, value]] : []));
      return this.eventually(expect, () => Object.fromEntries(told()));
    }
    return this.eventually(expect, () => {
      const sums: Record<string, number> = {};
      for (const { name, kind, value } of lines()) {
        if (kind === 'c' && name.startsWith(prefix)) sums[name] = (sums[name] ?? 0) + value;
      }
      return sums;
    });
  }

  private async reload({ write = {}, delete: gone = [], expect }: Step): Promise<readonly string[]> {
    const { outcome, error } = (expect ?? {}) as { readonly outcome?: string; readonly error?: string };
    const before = await this.loads();
    for (const name of gone) rmSync(join(this.configFolder, name));
    this.write(write);
    const differences = await this.eventually({ outcome }, async () => {
      const after = await this.loads();
      if (after.error > before.error) return { outcome: 'rejected' };
      return { outcome: after.success > before.success ? 'loaded' : 'nothing' };
    });
    if (differences.length > 0 || error === undefined) return differences;
    // the page may arrive before the log line, which is written after the error is counted
    const missing = await this.eventually({ found: true }, () => ({ found: this.said(error) }));
    return missing.length === 0 ? [] : [`wanted the error '${error}', came ${this.process?.output().slice(-2_000)}`];
  }

  private async loads(): Promise<{ readonly success: number; readonly error: number }> {
    const { body } = await this.get('debug', '/stats');
    const count = (name: string) =>
      Number(new RegExp(`^ratelimit.service.config_load_${name}: (\\d+)$`, 'm').exec(body)?.[1]);
    return { success: count('success'), error: count('error') };
  }

  /**
   * Whether the log has a message about this file: `sub.f.yaml: text`. Ours have the file's full path, `…/sub/f.yaml`,
   * so that it can be opened, then line and path.
   */
  private said(text: string): boolean {
    const [, file = '', message = ''] = /^(?:([^ ']+): )?(.*)$/s.exec(text) ?? [];
    const lines = (this.process?.output() ?? '').split('\n').filter((line) => line.startsWith('{'));
    return lines.some((line) => {
      const logged = String(JSON.parse(line)['@message']);
      const [path = ''] = logged.split(':');
      const isOfFile = logged.startsWith(`${file}:`) || path.replaceAll('/', '.').endsWith(`.${file}`);
      return (file === '' || isOfFile) && logged.includes(message);
    });
  }

  private async snapshot({ version = '', resources = [], expect }: Step): Promise<readonly string[]> {
    const verdict = await this.controlPlane?.serve(version, resources as readonly Resource[]); // from the recording
    if (!verdict || !('nack' in verdict) || !expect || !('nack' in expect)) return this.compare(expect, verdict);
    const nack = expect.nack === '{any}' ? '{any}' : `{contains:${expect.nack}}`; // ours may have more details
    return this.compare({ ...expect, nack }, verdict);
  }

  private async exit({ expect, within_ms = 10_000 }: Step): Promise<readonly string[]> {
    const limitMs = this.untilFirst ? within_ms : Math.max(within_ms, START_TIMEOUT_MS); // the recorded time is that of an idle machine
    const ended = await Promise.race([this.process?.exited, sleep(limitMs, undefined, { ref: false })]);
    const { code } = (expect ?? {}) as { readonly code?: number };
    if (!ended) return ['it goes on'];
    return code === undefined || ended.code === code ? [] : [differ({ code }, ended)];
  }

  private write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.configFolder, name);
      mkdirSync(dirname(path), { recursive: true });
      const aside = join(this.folder, 'aside');
      writeFileSync(aside, text.startsWith('@') ? (this.configs[text.slice(1)] ?? '') : text);
      renameSync(aside, path);
    }
  }

  /** A memcached for which reads and the first `incr` find nothing, `add` comes too late, and later `incr` return 1. */
  private async startFake(): Promise<number> {
    let increments = 0;
    const server: Server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        const commands = data
          .toString()
          .split('\r\n')
          .filter((line) => /^(gets?|incr|add|mg|mn) /.test(line));
        for (const command of commands) {
          this.fakeSeen.push(command.replace(/ \d{10}$/, ''));
          if (command.startsWith('get')) socket.write('END\r\n');
          else if (command.startsWith('add')) socket.write('NOT_STORED\r\n');
          else socket.write(increments++ === 0 ? 'NOT_FOUND\r\n' : '1\r\n');
        }
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.closing.push(() => server.close());
    const address = server.address();
    return typeof address === 'object' && address ? address.port : 0;
  }

  private async eventually(wanted: unknown, get: () => unknown): Promise<readonly string[]> {
    const endMs = Date.now() + (this.untilFirst ? SHORT_PATIENCE_MS : PATIENCE_MS);
    if (wanted === undefined) return [];
    if (this.untilFirst || JSON.stringify(wanted) === '{}') await sleep(SETTLE_MS); // an expected difference may appear only after a while
    for (;;) {
      const differences = this.compare(wanted, await get());
      if (differences.length === 0 || Date.now() > endMs) return differences;
      await sleep(POLL_MS);
    }
  }

  private compare(wanted: unknown, came: unknown): readonly string[] {
    if (wanted === undefined) return [];
    const filled = JSON.parse(this.filled(JSON.stringify(wanted)));
    const nowMs = Date.now();
    const earliestMs = Math.max(this.startedMs - 1_000, nowMs - PATIENCE_MS);
    const seconds = Array.from({ length: Math.ceil((nowMs - earliestMs) / 1_000) + 1 }, (_, at) => nowMs - at * 1_000);
    const isSame = seconds.some((atMs) => matches(withOwnCode(filled, came), came, atMs)); // it may have been decided in any of these seconds
    return isSame ? [] : [differ(filled, came)];
  }
}

/**
 * The expected answer, with UNKNOWN replaced by the actual code if it is one of ours, and without an unrecorded
 * message.
 */
function withOwnCode(wanted: unknown, came: unknown): unknown {
  if (typeof wanted !== 'object' || wanted === null || !('grpc_status' in wanted)) return wanted;
  const { grpc_status, grpc_message } = came as { readonly grpc_status?: number; readonly grpc_message?: string };
  const isOwn = wanted.grpc_status === 2 && codesForUnknown.includes(grpc_status ?? 0);
  return { grpc_message, ...wanted, ...(isOwn && { grpc_status }) };
}

const startOf = (unit: Unit, nowMs: number): number => nowMs - (nowMs % unitMs[unit]);

/** Numbers beyond 2^53 are sent as text, to avoid rounding. */
function exactWire(asked: RecordedRequest): WireRequest {
  const wire = toWire(asked);
  const descriptors = wire.descriptors.map((descriptor, at) => {
    const hits = asked.descriptors?.[at]?.hits_addend;
    return hits === undefined ? descriptor : { ...descriptor, hits_addend: { value: hits as number } }; // the encoder also accepts text
  });
  return { ...wire, descriptors };
}

/** Parses a line of StatsD: its name with sorted tags, its kind and its value. */
function parseLine(line: string) {
  const [, name, value, kind, tags] = /^(.*):(-?[\d.]+)\|(\w+)(?:\|#(.*))?$/.exec(line) ?? [];
  if (name === undefined || kind === undefined) return undefined;
  const suffix = tags === undefined || tags === '' ? '' : `|#${tags.split(',').sort().join(',')}`;
  return { name: `${name}${suffix}`, kind, value: Number(value) };
}

/** The reply of a server on this port to a line. */
async function ask(port: number, line: string): Promise<string> {
  const { connect } = await import('node:net');
  const socket = connect(port, '127.0.0.1');
  try {
    socket.write(line);
    const [reply] = await once(socket, 'data');
    return String(reply);
  } finally {
    socket.destroy();
  }
}
