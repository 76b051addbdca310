import type { SocketOptions } from 'node:dgram';
import { lookup } from 'node:dns';
import { connect, isIP, type Socket } from 'node:net';
import { Writable } from 'node:stream';
import type { ClientOptions, StatsD } from 'hot-shots';
import type { RE2JS } from 're2js';
import type { Mogrifier } from '../../operate/observe/mogrifier.ts';
import { responseTimeName } from '../../operate/observe/reference-names.ts';

interface StatsdOptions {
  readonly host: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
  readonly flushIntervalMs: number;
  readonly names: StatsdNames;
  /** Every counter by its full name; monotonic. */
  counters(): ReadonlyMap<string, number>;
  /** The part of the counters that other processes have sent; monotonic. */
  sentBefore?(): ReadonlyMap<string, number>;
  gauges(): ReadonlyMap<string, number>;
  /** Called once when nothing can be sent any more. */
  onDown(error: Error): void;
  /** Called once when sending works again. */
  onUp(): void;
}

/** Payload of a datagram with the usual MTU of 1,500 bytes. */
const MAX_PACKET_BYTES = 1432;
/** Timers are buffered for this long, so that many share a packet. */
const BUFFER_MS = 100;
/** The longest interval of a timer in Node. */
const NEVER_MS = 2 ** 31 - 1;
/** How long a resolved address is cached. */
const ADDRESS_TTL_MS = 60_000;

/**
 * Sends statistics to StatsD or DogStatsD: the increments of counters and all gauges at every interval; timers at once.
 *
 * Over TCP, increments that cannot be sent, since the connection is down or stalled, are sent with a later interval:
 * only timers and data in transit are lost. Over UDP, loss is not detected.
 */
export async function createStatsdSink(options: StatsdOptions) {
  const { client, accepts, onSent, close } = await open(options);
  const target = cacheTargets(options.names);
  /** The counts that this process has sent. */
  const sent = new Map<string, number>();

  const flush = (): void => {
    if (!accepts()) return;
    const before = options.sentBefore?.();
    const gauges = options.gauges();
    let hasData = gauges.size > 0;
    for (const [full, total] of options.counters()) {
      const count = total - (before?.get(full) ?? 0);
      const known = sent.get(full) ?? 0;
      if (count <= known) continue;
      const { name, tags } = target(full);
      client()?.increment(name, count - known, tags);
      sent.set(full, count);
      hasData = true;
    }
    for (const [full, value] of gauges) {
      const { name, tags } = target(full);
      client()?.gauge(name, value, tags);
    }
    if (hasData) client()?.flush(onSent);
  };
  /** Set while timers are buffered. */
  let sending: NodeJS.Timeout | undefined;
  const timer = setInterval(flush, options.flushIntervalMs).unref();

  return {
    /** Records the duration of a gRPC call. */
    onCallFinished(method: string, elapsedMs: number): void {
      if (!accepts()) return;
      const { name, tags } = target(responseTimeName(method));
      client()?.timing(name, Math.floor(elapsedMs), tags); // whole milliseconds, as in envoyproxy/ratelimit
      sending ??= setTimeout(() => {
        sending = undefined;
        client()?.flush(onSent);
      }, BUFFER_MS).unref();
    },
    /** Sends what is left and stops, within about a second. */
    async close(): Promise<void> {
      clearInterval(timer);
      clearTimeout(sending);
      flush();
      await close();
    },
  };
}

/** The destination of statistics. */
interface Outlet {
  /** Undefined until it is loaded: over TCP, after the server was first reached, since most machines have none. */
  client(): StatsD | undefined;
  /** Whether data would be sent now; if so, there is a client. */
  accepts(): boolean;
  /** The callback of each flush. */
  readonly onSent: (error?: Error) => void;
  close(): Promise<void>;
}

async function open({ host, port, protocol, onDown, onUp }: StatsdOptions): Promise<Outlet> {
  let isDown = false;
  const down = (error: Error): void => {
    if (!isDown) onDown(error);
    isDown = true;
  };
  const up = (): void => {
    if (isDown) onUp();
    isDown = false;
  };
  const common: ClientOptions = {
    maxBufferSize: MAX_PACKET_BYTES,
    bufferFlushInterval: NEVER_MS, // its timer never stops: `flush` is called instead
    errorHandler: down,
    includeDataDogTags: false, // else it would read its own environment variables
    datadog: false,
  };
  let client: StatsD | undefined;
  let isClosed = false;
  const load = async (ofProtocol: ClientOptions): Promise<void> => {
    const { StatsD } = await import('hot-shots');
    if (!isClosed) client ??= new StatsD({ ...common, ...ofProtocol });
  };
  const closeClient = async (): Promise<void> => {
    isClosed = true;
    await new Promise<void>((resolve) => (client ? client.close(() => resolve()) : resolve()));
  };
  if (protocol === 'tcp') {
    const connected = (): void => {
      up();
      void load({ protocol: 'stream', stream });
    };
    const stream = new ReconnectingStream({ host, port, onDown: down, onUp: connected });
    const close = async (): Promise<void> => {
      await closeClient();
      stream.destroy();
    };
    return { client: () => client, accepts: () => client !== undefined && stream.accepts(), onSent: () => {}, close };
  }
  const udpSocketOptions: SocketOptions | undefined =
    isIP(host) === 0 ? { type: 'udp4', lookup: createLookup() } : undefined;
  await load({ protocol: 'udp', host, port, ...(udpSocketOptions && { udpSocketOptions }) });
  return {
    client: () => client,
    accepts: () => true,
    onSent: (error?: Error) => (error ? down(error) : up()),
    close: closeClient,
  };
}

/** Resolves a name and caches the last address: the socket resolves it for every packet and when it binds. */
function createLookup(): NonNullable<SocketOptions['lookup']> {
  let cached: { readonly name: string; readonly address: string; readonly untilMs: number } | undefined;
  return (name, _options, done) => {
    if (cached?.name === name && performance.now() < cached.untilMs) return done(null, cached.address, 4);
    lookup(name, { family: 4 }, (error, address) => {
      if (!error) cached = { name, address, untilMs: performance.now() + ADDRESS_TTL_MS };
      done(error, address, 4);
    });
  };
}

/** Caches the targets of names, since computing them may involve patterns. */
function cacheTargets(names: StatsdNames) {
  const known = new Map<string, { readonly name: string; readonly tags: string[] }>();
  return (full: string) => {
    const cached = known.get(full);
    if (cached) return cached;
    const { name, tags } = names(full);
    const target = { name, tags: [...tags].map(([tag, value]) => `${tag}:${value}`) };
    known.set(full, target);
    return target;
  };
}

interface ReconnectingStreamOptions {
  readonly host: string;
  readonly port: number;
  onUp(): void;
  /** Called each time the connection is lost or cannot be established. */
  onDown(error: Error): void;
}

/** Delay before reconnecting; doubled after each failed attempt, up to the longest. */
const RECONNECT_AFTER_MS = 1_000;
const LONGEST_RECONNECT_MS = 8_000;
/** Limit of unsent data; beyond it nothing is accepted. */
const MAX_UNSENT_BYTES = 1024 * 1024;
/** A connection whose server reads nothing for this long is ended. */
const STALLED_AFTER_MS = 10_000;
/** How long unsent data may take to be sent when the stream ends. */
const END_TIMEOUT_MS = 500;

/** A TCP connection that is re-established when lost. Writes while it is down are dropped. */
class ReconnectingStream extends Writable {
  private socket: Socket | undefined;
  private retry: NodeJS.Timeout | undefined;
  private retryAfterMs = RECONNECT_AFTER_MS;
  private readonly options: ReconnectingStreamOptions;

  constructor(options: ReconnectingStreamOptions) {
    super();
    this.options = options;
    this.connect();
  }

  /** Whether data written now would be sent. */
  accepts(): boolean {
    return this.socket?.readyState === 'open' && this.socket.writableLength <= MAX_UNSENT_BYTES;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.socket?.readyState === 'open') this.socket.write(chunk);
    done(); // at once: `accepts` provides back-pressure
  }

  override _destroy(_error: Error | null, done: () => void): void {
    clearTimeout(this.retry);
    const { socket } = this;
    if (!socket || socket.destroyed) {
      done();
      return;
    }
    const timer = setTimeout(() => socket.destroy(), END_TIMEOUT_MS);
    socket.once('close', () => {
      clearTimeout(timer);
      done();
    });
    if (socket.connecting) socket.destroy();
    else socket.end(() => socket.destroy());
  }

  private connect(): void {
    const socket = connect(this.options.port, this.options.host);
    this.socket = socket;
    let reason = new Error('it closed the connection');
    socket.unref().setKeepAlive(true).setTimeout(STALLED_AFTER_MS);
    socket.on('connect', () => {
      this.retryAfterMs = RECONNECT_AFTER_MS;
      this.options.onUp();
    });
    socket.on('error', (error) => {
      reason = error;
    });
    socket.on('timeout', () => {
      if (socket.writableLength > 0) socket.destroy(new Error(`it read nothing for ${STALLED_AFTER_MS} ms`));
    });
    socket.on('close', () => {
      if (this.destroyed) return;
      this.options.onDown(reason);
      this.retry = setTimeout(() => this.connect(), this.retryAfterMs).unref();
      this.retryAfterMs = Math.min(this.retryAfterMs * 2, LONGEST_RECONNECT_MS);
    });
    socket.resume(); // discards input, so that the end is noticed
  }
}

/** The name and tags of a statistic in a sink. */
interface StatsdTarget {
  readonly name: string;
  readonly tags: ReadonlyMap<string, string>;
}

/** Maps the name of a statistic to a sink's name and tags. */
type StatsdNames = (name: string) => StatsdTarget;

/** StatsD has no tags: they are appended to the name as `<name>.__<tag>=<value>`, sorted as in envoyproxy/ratelimit. */
export function statsdNames(extraTags: ReadonlyMap<string, string>): StatsdNames {
  const suffix = sorted(extraTags).map(([tag, value]) => `.__${tag}=${asTagValue(value)}`);
  return (name) => ({ name: withoutTags(`${name}${suffix.join('')}`), tags: new Map() });
}

/** DogStatsD has tags: the extra tags, overridden by those of mogrifiers. */
export function dogStatsdNames(extraTags: ReadonlyMap<string, string>, mogrifiers: readonly Mogrifier[]): StatsdNames {
  const extra = [...extraTags].map(([tag, value]) => [tag, asTagValue(value)] as const);
  const mogrify = createMogrify(mogrifiers);
  return (full) => {
    const { name, tags } = mogrify(full);
    return { name: withoutTags(name), tags: new Map(sorted([...extra, ...tags])) };
  };
}

/**
 * A name without what begins tags in the dialects of Librato (`#`), InfluxDB (`,`), Graphite (`;`) and SignalFx (`[`):
 * statsd_exporter 0.31 cuts it there, and adds up all counters of a rule.
 */
const withoutTags = (name: string): string => name.replaceAll(/[#,;[\]]/g, '_');

const sorted = (tags: Iterable<readonly [string, string]>): readonly (readonly [string, string])[] =>
  [...tags].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));

/** Creates the function that maps names by the first mogrifier whose pattern matches. */
export const createMogrify =
  (mogrifiers: readonly Mogrifier[]) =>
  (name: string): StatsdTarget => {
    for (const mogrifier of mogrifiers) {
      const matcher = mogrifier.pattern.matcher(name);
      if (matcher.find()) return rewritten(mogrifier, matcher);
    }
    return { name, tags: new Map() };
  };

function rewritten({ name, tags }: Mogrifier, match: ReturnType<RE2JS['matcher']>): StatsdTarget {
  const filled = (template: string) =>
    template.replaceAll(/\$(\d+)/g, (reference, group) =>
      Number(group) <= match.groupCount() ? (match.group(Number(group)) ?? '') : reference,
    );
  return { name: filled(name), tags: new Map([...tags].map(([key, value]) => [key, filled(value)])) };
}

/** Makes a tag value valid: replaces dots as well, since the value may become part of a name. */
export const asTagValue = (value: string): string => value.replaceAll(/[.:|\r\n]/g, '_');
