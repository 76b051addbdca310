import { randomUUID } from 'node:crypto';
import type { Monotonic } from '../../clock.ts';
import type { InvalidationListener, Invalidations } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import type { RedisConnection } from './connect.ts';
import { type MessageSubscriber, openSubscriber } from './subscriber.ts';

/** The interval at which an instance publishes to itself, to verify that changes arrive. */
const BEAT_MS = 250;
/** An instance that does not receive its own beat for this long assumes that it misses changes. */
export const BEAT_LOST_MS = 1_000;
/** A subscription that receives no beat for this long is renewed: its connection may be dead. */
const RENEW_MS = 2_000;
/** Keys in a message. */
const MAX_KEYS = 256;

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
}

/**
 * Publishes changes to counters on a Redis channel, and subscribes to those of other instances on a separate
 * connection. All changes of one turn of the event loop are sent in one message. A failed subscription is retried
 * indefinitely: there may be no connection, or the user may not use the channel.
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
  #queued = { changed: new Set<string>(), forgotten: new Set<string>() };

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
    this.#subscriber.close();
  }

  get #isEmpty(): boolean {
    return this.#queued.changed.size + this.#queued.forgotten.size === 0;
  }

  #send(to: string, text: string): void {
    if (this.#redis.status === 'ready') this.#redis.publish(to, text).catch(() => {}); // beats are missing then, too
  }

  #flush(): void {
    const { changed, forgotten } = this.#queued;
    this.#queued = { changed: new Set(), forgotten: new Set() };
    const from = this.#instance;
    for (const slice of slices([...changed])) this.#send(this.#channel, JSON.stringify({ from, changed: slice }));
    for (const slice of slices([...forgotten])) this.#send(this.#channel, JSON.stringify({ from, forgotten: slice }));
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
          this.#send(this.#beatChannel, '');
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

function receive(text: string, instance: string, listener: InvalidationListener): void {
  const { from, changed, forgotten } = parse(text);
  if (from === instance) return;
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
