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

export interface RedisInvalidations extends Invalidations {
  close(): void;
}

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
export function openInvalidations(
  redis: RedisConnection,
  { prefix, listener, monotonicMs }: Options,
): RedisInvalidations {
  const instance = randomUUID();
  const channel = `${prefix}weir|changes`;
  const beatChannel = `${channel}|${instance}`;
  const subscriber = subscriberOf(redis);
  let beatAtMs = Number.NEGATIVE_INFINITY;
  let isSubscribing = false;
  let isSubscribed = false;
  let subscribedAtMs = 0;
  let queued = { changed: new Set<string>(), forgotten: new Set<string>() };
  const isLive = (): boolean => monotonicMs() - beatAtMs < BEAT_LOST_MS;

  const send = (to: string, text: string): void => {
    if (redis.status === 'ready') redis.publish(to, text).catch(() => {}); // then beats are missing, too
  };
  const flush = (): void => {
    const { changed, forgotten } = queued;
    queued = { changed: new Set(), forgotten: new Set() };
    for (const slice of slices([...changed])) send(channel, JSON.stringify({ from: instance, changed: slice }));
    for (const slice of slices([...forgotten])) send(channel, JSON.stringify({ from: instance, forgotten: slice }));
  };
  const subscribe = (): void => {
    if (isSubscribing || isSubscribed || subscriber.status !== 'ready') return;
    isSubscribing = true;
    subscriber
      .subscribe(channel, beatChannel)
      .then(
        () => {
          isSubscribed = true;
          subscribedAtMs = monotonicMs();
          send(beatChannel, '');
        },
        () => {}, // tried again with the next beat
      )
      .finally(() => {
        isSubscribing = false;
      });
  };
  subscriber.on('error', () => {}); // the main connection reports them
  subscriber.on('ready', subscribe);
  subscriber.on('close', () => {
    isSubscribed = false;
  });
  subscriber.on('message', (to: string, text: string) => {
    if (to !== beatChannel) return receive(text, instance, listener);
    const wasLive = isLive();
    beatAtMs = monotonicMs();
    if (!wasLive) listener.missed();
  });
  const renew = (): void => {
    if (isLive() || monotonicMs() - subscribedAtMs < RENEW_MS) return;
    isSubscribed = false;
    subscriber.disconnect(true);
  };
  const beat = setInterval(() => {
    if (isSubscribed) renew();
    subscribe();
    if (isSubscribed) send(beatChannel, '');
  }, BEAT_MS).unref();

  return {
    publish(what, key) {
      if (queued.changed.size + queued.forgotten.size === 0) setImmediate(flush);
      queued[what].add(key);
    },
    isLive,
    close() {
      clearInterval(beat);
      if (queued.changed.size + queued.forgotten.size > 0) flush();
      subscriber.disconnect();
    },
  };
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
