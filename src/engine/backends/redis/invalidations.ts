import { randomUUID } from 'node:crypto';
import { Cluster, type Redis } from 'ioredis';
import type { Monotonic } from '../../../base/clock.ts';
import type { InvalidationListener, Invalidations } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import { hurryReconnects, isQuiet, mendSentinelClient, type RedisConnection } from './connect.ts';

/** The interval at which an instance publishes to itself, to verify that changes arrive. */
const BEAT_MS = 250;
/** An instance that does not receive its own beat for this long assumes that it misses changes. */
const BEAT_LOST_MS = 1_000;
/** A subscription that receives no beat for this long is renewed: its connection may be dead. */
const RENEW_MS = 2_000;
/** Keys in a message. */
const MAX_KEYS = 256;
/**
 * Maximum number of changed keys that are kept without a connection; beyond it, other instances drop all cached
 * refusals.
 */
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
  readonly #monotonicMs: Monotonic;
  readonly #instance = randomUUID();
  readonly #channel: string;
  readonly #beatChannel: string;
  readonly #subscriber: MessageSubscriber;
  readonly #beat: NodeJS.Timeout;
  #beatAtMs = Number.NEGATIVE_INFINITY;
  #isSubscribing = false;
  #askedAtMs = 0;
  #isSubscribed = false;
  #subscribedAtMs = 0;
  #queued = nothingQueued();
  #isFlushScheduled = false;

  constructor(redis: RedisConnection, { prefix, listener, monotonicMs }: Options) {
    this.#redis = redis;
    this.#monotonicMs = monotonicMs;
    this.#channel = `${prefix}weir|changes`;
    this.#beatChannel = `${this.#channel}|${this.#instance}`;
    this.#subscriber = openSubscriber(redis, {
      onReady: () => this.#subscribe(),
      onClose: () => {
        this.#isSubscribed = false;
        this.#beatAtMs = Number.NEGATIVE_INFINITY; // what is published until the next beat is missed
      },
      onMessage: (to, text) => {
        if (to === this.#beatChannel) this.#noteBeat(listener);
        else receive(text, this.#instance, listener);
      },
    });
    this.#beat = setInterval(() => {
      if (this.#isSubscribed) this.#renew();
      this.#subscribe();
      if (this.#isSubscribed) this.#sendBeat();
      this.#flush();
    }, BEAT_MS).unref();
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
    clearInterval(this.#beat);
    this.#flush();
    this.#subscriber.close();
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
      if (error.name === 'ReplyError') return; // not permitted: other instances receive no beats either
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

  #subscribe(): void {
    if (this.#isSubscribing && this.#monotonicMs() - this.#askedAtMs >= RENEW_MS) this.#subscriber.renew();
    if (this.#isSubscribing || this.#isSubscribed || !this.#subscriber.isReady()) return;
    this.#isSubscribing = true;
    this.#askedAtMs = this.#monotonicMs();
    this.#subscriber
      .subscribe(this.#channel, this.#beatChannel)
      .then(
        () => {
          this.#isSubscribed = true;
          this.#subscribedAtMs = this.#monotonicMs();
          this.#sendBeat();
        },
        () => {}, // retried with the next beat
      )
      .finally(() => {
        this.#isSubscribing = false;
      });
  }

  #noteBeat(listener: InvalidationListener): void {
    const wasLive = this.isLive();
    this.#beatAtMs = this.#monotonicMs();
    if (!wasLive) listener.missed();
  }

  #renew(): void {
    if (this.isLive() || this.#monotonicMs() - this.#subscribedAtMs < RENEW_MS) return;
    this.#isSubscribed = false;
    this.#subscriber.renew();
  }
}

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

/** A connection that receives messages and is reopened whenever it is lost. */
interface MessageSubscriber {
  isReady(): boolean;
  /** Rejects if the user may not use a channel, and if the connection is lost. */
  subscribe(...channels: readonly string[]): Promise<unknown>;
  /** Reopens the connection, which may be dead; on a Cluster, possibly to another node. */
  renew(): void;
  close(): void;
}

interface MessageEvents {
  onReady(): void;
  onClose(): void;
  onMessage(channel: string, text: string): void;
}

/** How long closing a connection may take, since it may be dead. */
const DISCONNECT_MS = 100;
/** The wait before the next attempt to connect to a node of a Cluster. */
const RETRY_MS = 250;

const ownOptions = {
  connectionName: 'weir-changes',
  socketTimeout: undefined,
  disconnectTimeout: DISCONNECT_MS,
  autoResubscribe: false, // its user resubscribes; ioredis does not handle a refusal, which would end the process
};

/** Opens a connection like this one. Its errors are not reported: this one has the same ones. */
function openSubscriber(redis: RedisConnection, events: MessageEvents): MessageSubscriber {
  if (redis instanceof Cluster) return new NodeSubscriber(redis, events);
  const copy = redis.duplicate(ownOptions);
  if (copy.options.sentinels) mendSentinelClient(copy);
  hurryReconnects(copy, redis.options.connectTimeout ?? Number.POSITIVE_INFINITY);
  listen(copy, events);
  return {
    isReady: () => copy.status === 'ready',
    subscribe: (...channels) => copy.subscribe(...channels),
    renew: () => copy.disconnect(true),
    close: () => copy.disconnect(),
  };
}

function listen(copy: Redis, { onReady, onClose, onMessage }: MessageEvents): void {
  copy.on('error', () => {});
  copy.on('ready', onReady);
  copy.on('close', onClose);
  copy.on('message', onMessage);
}

/**
 * A connection to any master of a Cluster: every node receives all messages. ioredis's own subscriber waits for a reply
 * to INFO, which may be renamed or forbidden.
 */
class NodeSubscriber implements MessageSubscriber {
  readonly #cluster: Cluster;
  readonly #events: MessageEvents;
  readonly #timer: NodeJS.Timeout;
  #copy: Redis | undefined;

  constructor(cluster: Cluster, events: MessageEvents) {
    this.#cluster = cluster;
    this.#events = events;
    cluster.once('ready', () => this.#open());
    this.#timer = setInterval(() => this.#open(), RETRY_MS).unref();
    this.#open();
  }

  isReady(): boolean {
    return this.#copy?.status === 'ready';
  }

  subscribe(...channels: readonly string[]): Promise<unknown> {
    return this.#copy?.subscribe(...channels) ?? Promise.reject(new Error('not connected'));
  }

  renew(): void {
    const copy = this.#copy;
    this.#copy = undefined;
    copy?.disconnect();
    this.#open();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#copy?.disconnect();
  }

  #open(): void {
    if (this.#copy && this.#copy.status !== 'end') return;
    const nodes = this.#cluster.nodes('master').filter(({ status }) => status === 'ready');
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (!node) return;
    const copy = node.duplicate({
      ...ownOptions,
      enableOfflineQueue: false,
      lazyConnect: false,
      retryStrategy: () => null,
    });
    this.#copy = copy;
    const isCurrent = (): boolean => this.#copy === copy;
    listen(copy, {
      onReady: () => isCurrent() && this.#events.onReady(),
      onClose: () => isCurrent() && this.#events.onClose(),
      onMessage: (channel, text) => {
        if (isCurrent()) this.#events.onMessage(channel, text);
      },
    });
  }
}
