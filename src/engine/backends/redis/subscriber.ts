import { Cluster, type Redis } from 'ioredis';
import { hurryReconnects, mendSentinelClient, type RedisConnection } from './connect.ts';

/** A connection that receives messages and is reopened whenever it is lost. */
export interface MessageSubscriber {
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
  ...{ connectionName: 'weir-changes', socketTimeout: undefined, disconnectTimeout: DISCONNECT_MS },
  autoResubscribe: false, // its user resubscribes; ioredis does not handle a refusal, which would end the process
};

/** Opens a connection like this one. Its errors are not reported: this one has the same ones. */
export function openSubscriber(redis: RedisConnection, events: MessageEvents): MessageSubscriber {
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
      ...{ enableOfflineQueue: false, lazyConnect: false, retryStrategy: () => null },
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
