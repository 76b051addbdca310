import { randomUUID } from 'node:crypto';
import { Cluster, type Redis } from 'ioredis';
import type { Monotonic } from '../../clock.ts';
import type { InvalidationListener, Invalidations } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import { hurryReconnects, mendSentinelClient, type RedisConnection } from './connect.ts';

/** How often an instance publishes to itself, to see that changes arrive. */
const BEAT_MS = 250;
/** Without a beat of its own for so long, an instance takes it that it misses changes. */
export const BEAT_LOST_MS = 1_000;
/** A subscription that no beat comes on for so long is made anew: its connection may be dead. */
const RENEW_MS = 2_000;
/** How long such a connection may take to say goodbye. */
const DISCONNECT_MS = 100;
/** Keys in a message. */
const MAX_KEYS = 256;

interface Options {
  readonly prefix: string;
  readonly listener: InvalidationListener;
  readonly monotonicMs: Monotonic;
}

/** A message on the wire. Keys are those of counters, as Redis has them. */
interface Message {
  readonly from: string;
  readonly changed?: readonly string[];
  readonly forgotten?: readonly string[];
}

/**
 * Publishes changes to counters on a channel of Redis, and listens to those of other instances on a connection of its
 * own. What is published in one turn of the event loop goes in one message. Subscribed again, for ever, where that
 * fails: without a connection, or where the user may not use the channel.
 */
export class RedisInvalidations implements Invalidations {
  readonly #redis: RedisConnection;
  readonly #monotonicMs: Monotonic;
  readonly #instance = randomUUID();
  readonly #channel: string;
  readonly #beatChannel: string;
  readonly #subscriber: Redis | Cluster;
  readonly #beat: NodeJS.Timeout;
  #beatAtMs = Number.NEGATIVE_INFINITY;
  #isSubscribing = false;
  #isSubscribed = false;
  #subscribedAtMs = 0;
  #queued = { changed: new Set<string>(), forgotten: new Set<string>() };

  constructor(redis: RedisConnection, { prefix, listener, monotonicMs }: Options) {
    this.#redis = redis;
    this.#monotonicMs = monotonicMs;
    this.#channel = `${prefix}weir|changes`;
    this.#beatChannel = `${this.#channel}|${this.#instance}`;
    this.#subscriber = subscriberOf(redis);
    this.#subscriber.on('error', () => {}); // the main connection reports them
    this.#subscriber.on('ready', () => this.#subscribe());
    this.#subscriber.on('close', () => {
      this.#isSubscribed = false;
    });
    this.#subscriber.on('message', (to: string, text: string) => {
      if (to === this.#beatChannel) this.#noteBeat(listener);
      else receive(text, this.#instance, listener);
    });
    this.#beat = setInterval(() => {
      if (this.#isSubscribed) this.#renew();
      this.#subscribe();
      if (this.#isSubscribed) this.#send(this.#beatChannel, '');
    }, BEAT_MS).unref();
  }

  publish(what: 'changed' | 'forgotten', key: CounterKey): void {
    if (this.#isEmpty) setImmediate(() => this.#flush());
    this.#queued[what].add(key);
  }

  isLive(): boolean {
    return this.#monotonicMs() - this.#beatAtMs < BEAT_LOST_MS;
  }

  close(): void {
    clearInterval(this.#beat);
    if (!this.#isEmpty) this.#flush();
    this.#subscriber.disconnect();
  }

  get #isEmpty(): boolean {
    return this.#queued.changed.size + this.#queued.forgotten.size === 0;
  }

  #send(to: string, text: string): void {
    if (this.#redis.status === 'ready') this.#redis.publish(to, text).catch(() => {}); // then beats are missing, too
  }

  #flush(): void {
    const { changed, forgotten } = this.#queued;
    this.#queued = { changed: new Set(), forgotten: new Set() };
    const from = this.#instance;
    for (const slice of slices([...changed])) this.#send(this.#channel, JSON.stringify({ from, changed: slice }));
    for (const slice of slices([...forgotten])) this.#send(this.#channel, JSON.stringify({ from, forgotten: slice }));
  }

  #subscribe(): void {
    if (this.#isSubscribing || this.#isSubscribed || this.#subscriber.status !== 'ready') return;
    this.#isSubscribing = true;
    this.#subscriber
      .subscribe(this.#channel, this.#beatChannel)
      .then(
        () => {
          this.#isSubscribed = true;
          this.#subscribedAtMs = this.#monotonicMs();
          this.#send(this.#beatChannel, '');
        },
        () => {}, // tried again with the next beat
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
    this.#subscriber.disconnect(true);
  }
}

function subscriberOf(redis: RedisConnection): Redis | Cluster {
  if (redis instanceof Cluster) {
    const subscriber = redis.duplicate();
    hurryReconnects(subscriber, redis.options.redisOptions?.connectTimeout ?? Number.POSITIVE_INFINITY);
    return subscriber;
  }
  const own = {
    ...{ connectionName: 'weir-changes', socketTimeout: undefined, disconnectTimeout: DISCONNECT_MS },
    autoResubscribe: false, // `subscribe` does; ioredis does not handle a refusal, which would end the process
  };
  const subscriber = redis.duplicate(own);
  if (subscriber.options.sentinels) mendSentinelClient(subscriber);
  hurryReconnects(subscriber, redis.options.connectTimeout ?? Number.POSITIVE_INFINITY);
  return subscriber;
}

function receive(text: string, instance: string, listener: InvalidationListener): void {
  const { from, changed, forgotten } = parse(text);
  if (from === instance) return;
  for (const key of keysIn(changed)) listener.changed(key);
  for (const key of keysIn(forgotten)) listener.forgotten(key);
}

/** What other programs publish on the channel is no message. */
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
