import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Monotonic } from '../../base/clock.ts';
import type { InvalidationListener, Invalidations } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { isQuiet, masters, type RedisConnection } from './connect.ts';
import { isReply } from './reason.ts';

/** The interval at which an instance publishes to itself, to verify that changes arrive. */
const BEAT_MS = 250;
/** An instance that does not receive its own beat for this long assumes that it misses changes. */
const BEAT_LOST_MS = 1_000;
/** A subscription that receives no beat for this long is renewed: its connection may be dead. */
const RENEW_MS = 2_000;
/** Keys in a message. */
const MAX_KEYS = 256;
/** Maximum number of changed keys kept without a connection; beyond it, other instances drop all cached refusals. */
const MAX_UNSENT_KEYS = 4_096;

interface Options {
  readonly prefix: string;
  readonly listener: InvalidationListener;
  readonly monotonicMs: Monotonic;
}

/** A message on the wire. Keys are those of counters in Redis. */
interface Message {
  readonly from: string;
  readonly changed?: readonly string[];
  readonly forgotten?: readonly string[];
  /** More has changed than the message names. */
  readonly missed?: true;
}

/**
 * Publishes changes to counters on a Redis channel, and subscribes to those of other instances on a separate
 * connection. All changes of one turn of the event loop are sent in one message; without a connection, they are kept. A
 * failed subscription is retried indefinitely: there may be no connection, or the user may not use the channel.
 */
export class RedisInvalidations implements Invalidations {
  readonly #redis: RedisConnection;
  readonly #listener: InvalidationListener;
  readonly #monotonicMs: Monotonic;
  readonly #instance = randomUUID();
  readonly #channel: string;
  readonly #beatChannel: string;
  readonly #beat: NodeJS.Timeout;
  #beatAtMs = Number.NEGATIVE_INFINITY;
  /** The connection for the subscription. */
  #subscriber: Redis | undefined;
  /** When it last subscribed, or began to; undefined if it has not, or was refused. */
  #subscribedAtMs: number | undefined;
  #isSubscribed = false;
  #queued = nothingQueued();
  #isFlushScheduled = false;
  #isClosed = false;

  constructor(redis: RedisConnection, { prefix, listener, monotonicMs }: Options) {
    this.#redis = redis;
    this.#listener = listener;
    this.#monotonicMs = monotonicMs;
    this.#channel = `${prefix}weir|changes`;
    this.#beatChannel = `${this.#channel}|${this.#instance}`;
    redis.on('ready', () => this.#connect());
    this.#beat = setInterval(() => {
      if (this.#isDead()) this.#drop();
      this.#connect();
      this.#subscribe();
      if (this.#isSubscribed) this.#sendBeat();
      this.#flush();
    }, BEAT_MS).unref();
    this.#connect();
  }

  publish(what: 'changed' | 'forgotten', key: CounterKey): void {
    this.#queued[what].add(key);
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    setImmediate(() => {
      this.#isFlushScheduled = false;
      this.#flush();
    });
  }

  isLive(): boolean {
    return this.#monotonicMs() - this.#beatAtMs < BEAT_LOST_MS;
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#beat);
    this.#flush();
    this.#drop();
  }

  #sendBeat(): void {
    if (this.#canPublish()) this.#redis.publish(this.#beatChannel, '').catch(() => {}); // counts as lost
  }

  #canPublish(): boolean {
    return this.#redis.status === 'ready' && !isQuiet(this.#redis);
  }

  /** Sends what is queued, or keeps it for the next beat while there is no connection. */
  #flush(): void {
    if (!this.#canPublish()) return this.#boundQueue();
    const { changed, forgotten, missed } = this.#queued;
    this.#queued = nothingQueued();
    for (const slice of slices([...changed])) this.#send({ changed: slice });
    for (const slice of slices([...forgotten])) this.#send({ forgotten: slice });
    if (missed) this.#send({ missed });
  }

  #send(message: Omit<Message, 'from'>): void {
    this.#redis.publish(this.#channel, JSON.stringify({ from: this.#instance, ...message })).catch((error: Error) => {
      if (isReply(error)) return; // not permitted: other instances receive no beats either
      for (const key of message.changed ?? []) this.#queued.changed.add(key);
      for (const key of message.forgotten ?? []) this.#queued.forgotten.add(key);
      if (message.missed) this.#queued.missed = true;
      this.#boundQueue();
    });
  }

  /** Replaces too many changed keys by one message that names none. */
  #boundQueue(): void {
    if (!this.#queued.missed && this.#queued.changed.size <= MAX_UNSENT_KEYS) return;
    this.#queued.changed.clear();
    this.#queued.missed = true;
  }

  /**
   * Opens a connection to the server, or to any master of a Cluster: every node receives all messages. ioredis's own
   * subscriber of a Cluster waits for a reply to INFO, which may be renamed or forbidden.
   */
  #connect(): void {
    if (this.#subscriber || this.#isClosed || !this.#canPublish()) return;
    const nodes = masters(this.#redis).filter(isReady);
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (!node) return;
    const subscriber = node.duplicate(subscriberOptions);
    this.#subscriber = subscriber;
    const ifCurrent =
      <A extends readonly unknown[]>(then: (...args: A) => void) =>
      (...args: A): void => {
        if (this.#subscriber === subscriber) then(...args);
      };
    subscriber.on('error', () => {}); // the other connection reports the same errors
    subscriber.on(
      'ready',
      ifCurrent(() => this.#subscribe()),
    );
    subscriber.on(
      'end',
      ifCurrent(() => this.#drop()),
    );
    subscriber.on(
      'message',
      ifCurrent((channel: string, text: string) => this.#receive(channel, text)),
    );
  }

  /** Closes the connection, which may be dead; the next beat opens another one. */
  #drop(): void {
    const subscriber = this.#subscriber;
    this.#subscriber = undefined;
    this.#subscribedAtMs = undefined;
    this.#isSubscribed = false;
    this.#beatAtMs = Number.NEGATIVE_INFINITY; // what is published until the next beat is missed
    subscriber?.disconnect();
  }

  #subscribe(): void {
    const subscriber = this.#subscriber;
    if (!subscriber || !isReady(subscriber) || this.#subscribedAtMs !== undefined) return;
    this.#subscribedAtMs = this.#monotonicMs();
    subscriber.subscribe(this.#channel, this.#beatChannel).then(
      () => {
        if (this.#subscriber !== subscriber) return;
        this.#isSubscribed = true;
        this.#subscribedAtMs = this.#monotonicMs();
        this.#sendBeat();
      },
      () => {
        if (this.#subscriber === subscriber) this.#subscribedAtMs = undefined; // retried with the next beat
      },
    );
  }

  /** Whether a subscription has received no beat for long. */
  #isDead(): boolean {
    if (this.#subscribedAtMs === undefined || this.isLive()) return false;
    return this.#monotonicMs() - this.#subscribedAtMs >= RENEW_MS;
  }

  #receive(channel: string, text: string): void {
    if (channel !== this.#beatChannel) return receive(text, this.#instance, this.#listener);
    const wasLive = this.isLive();
    this.#beatAtMs = this.#monotonicMs();
    if (!wasLive) this.#listener.missed();
  }
}

const isReady = ({ status }: Redis): boolean => status === 'ready';

/** How long closing a connection may take, since it may be dead. */
const DISCONNECT_MS = 100;

/** Options of the connection for the subscription, which is replaced when it is lost. */
const subscriberOptions = {
  connectionName: 'weir-changes',
  socketTimeout: undefined,
  disconnectTimeout: DISCONNECT_MS,
  enableOfflineQueue: false,
  lazyConnect: false,
  autoResubscribe: false, // ioredis does not handle a refusal, which would end the process
  failoverDetector: false,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
};

const nothingQueued = () => ({ changed: new Set<string>(), forgotten: new Set<string>(), missed: false });

function receive(text: string, instance: string, listener: InvalidationListener): void {
  const { from, changed, forgotten, missed } = parse(text);
  if (from === instance) return;
  if (missed === true) listener.missed();
  for (const key of keysIn(changed)) listener.changed(key);
  for (const key of keysIn(forgotten)) listener.forgotten(key);
}

/** Messages of other programs on the channel are ignored. */
function parse(text: string): { readonly [N in keyof Message]?: unknown } {
  try {
    const message: unknown = JSON.parse(text);
    return typeof message === 'object' && message !== null ? message : {};
  } catch {
    return {};
  }
}

const keysIn = (list: unknown): readonly CounterKey[] =>
  // instances publish keys of counters
  (Array.isArray(list) ? list.filter((key) => typeof key === 'string') : []) as CounterKey[];

function slices(keys: readonly string[]): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(keys.length / MAX_KEYS) }, (_, at) =>
    keys.slice(at * MAX_KEYS, (at + 1) * MAX_KEYS),
  );
}
