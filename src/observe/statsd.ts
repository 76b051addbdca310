import type { SocketOptions } from 'node:dgram';
import { lookup } from 'node:dns';
import { isIP } from 'node:net';
import { type ClientOptions, StatsD } from 'hot-shots';
import { inSlices } from '../slices.ts';
import { ReconnectingStream } from './reconnecting-stream.ts';
import { responseTimeName } from './reference-names.ts';
import type { StatsdNames } from './statsd-names.ts';

export interface StatsdOptions {
  readonly host: string;
  readonly port: number;
  readonly protocol: 'tcp' | 'udp';
  readonly flushIntervalMs: number;
  readonly names: StatsdNames;
  /** Every counter by its whole name; none goes back. */
  counters(): ReadonlyMap<string, number> | Promise<ReadonlyMap<string, number>>;
  gauges(): ReadonlyMap<string, number>;
  /** Told once when nothing can be sent, and once when it can be again. */
  onDown(error: Error): void;
  onUp(): void;
}

/** Sends statistics to StatsD or DogStatsD. */
export interface StatsdSink {
  /** One call of gRPC, which took so long. */
  called(method: string, elapsedMs: number): void;
  /** Sends what is left and stops, within little more than a second. */
  close(): Promise<void>;
}

/** What fits into a datagram on the usual way, with an MTU of 1,500 bytes. */
const MAX_PACKET_BYTES = 1432;
/** Timers are gathered so long, so that many share a packet. */
const GATHER_MS = 100;
/** How long the address of a host is taken to be the same. */
const ADDRESS_KEPT_MS = 60_000;

/**
 * Sends at every interval what counters have grown by, where they have, and gauges; timers at once.
 *
 * What cannot be sent over TCP, since there is no connection or the server takes nothing, goes with the next interval in which it can:
 * only timers, and what was on its way, are lost. Over UDP nobody knows what arrived.
 */
export function createStatsdSink(options: StatsdOptions): StatsdSink {
  const { client, accepts, onSent } = open(options);
  const targets = createTargets(options.names);
  const sent = new Map<string, number>();

  const send = (slice: readonly (readonly [name: string, count: number])[]): boolean => {
    const grown = slice.filter(([name, count]) => count > (sent.get(name) ?? 0));
    targets.learn(grown.map(([name]) => name));
    for (const [name, count] of grown) {
      const { name: shown, tags } = targets.of(name);
      client.increment(shown, count - (sent.get(name) ?? 0), tags);
      sent.set(name, count);
    }
    return grown.length > 0;
  };
  const flush = async (): Promise<void> => {
    const counters = accepts() ? await options.counters() : [];
    let isNews = false;
    for await (const slice of inSlices(counters)) {
      if (!accepts()) return; // what is left goes with the next interval
      if (send(slice)) isNews = true;
    }
    if (!accepts()) return;
    const gauges = [...options.gauges()];
    targets.learn(gauges.map(([name]) => name));
    for (const [name, value] of gauges) {
      const { name: shown, tags } = targets.of(name);
      client.gauge(shown, value, tags);
    }
    if (isNews || gauges.length > 0) client.flush(onSent);
  };
  /** The flush that runs. */
  let flushing: Promise<void> | undefined;
  const timer = setInterval(() => {
    flushing ??= flush().finally(() => {
      flushing = undefined;
    });
  }, options.flushIntervalMs).unref();

  return {
    called(method, elapsedMs) {
      if (!accepts()) return;
      const { name, tags } = targets.of(responseTimeName(method));
      client.timing(name, Math.floor(elapsedMs), tags); // whole milliseconds, as there
    },
    async close() {
      clearInterval(timer);
      await flushing;
      await flush();
      await new Promise<void>((resolve) => client.close(() => resolve()));
    },
  };
}

/** The client for the chosen protocol, whether it takes anything now, and what to tell of each flush. */
function open({ host, port, protocol, onDown, onUp }: StatsdOptions) {
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
    bufferFlushInterval: GATHER_MS,
    errorHandler: down,
    includeDataDogTags: false, // or it would take settings of its own from the environment
    datadog: false,
  };
  if (protocol === 'tcp') {
    const stream = new ReconnectingStream({ host, port, onDown: down, onUp: up });
    const client = new StatsD({ ...common, protocol: 'stream', stream });
    return { client, accepts: () => stream.accepts(), onSent: () => {} };
  }
  const udpSocketOptions: SocketOptions | undefined =
    isIP(host) === 0 ? { type: 'udp4', lookup: createLookup() } : undefined;
  const client = new StatsD({ ...common, protocol: 'udp', host, port, ...(udpSocketOptions && { udpSocketOptions }) });
  return { client, accepts: () => true, onSent: (error?: Error) => (error ? down(error) : up()) };
}

/** Finds the address of a name, and keeps the last one for a while: it is asked for with every packet, and for binding. */
function createLookup(): NonNullable<SocketOptions['lookup']> {
  let known: { readonly name: string; readonly address: string; readonly untilMs: number } | undefined;
  return (name, _options, done) => {
    if (known?.name === name && performance.now() < known.untilMs) return done(null, known.address, 4);
    lookup(name, { family: 4 }, (error, address) => {
      if (!error) known = { name, address, untilMs: performance.now() + ADDRESS_KEPT_MS };
      done(error, address, 4);
    });
  };
}

/** Keeps what names are written as, since finding it out may need patterns. */
function createTargets(names: StatsdNames) {
  const known = new Map<string, { readonly name: string; readonly tags: string[] }>();
  const learn = (asked: readonly string[]): void => {
    const fresh = asked.filter((name) => !known.has(name));
    for (const [at, { name, tags }] of names(fresh).entries())
      known.set(fresh[at] ?? '', { name, tags: [...tags].map(([tag, value]) => `${tag}:${value}`) });
  };
  return {
    learn,
    of(name: string) {
      if (!known.has(name)) learn([name]);
      return known.get(name) ?? { name, tags: [] };
    },
  };
}
