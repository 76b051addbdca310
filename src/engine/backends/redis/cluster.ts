import type { Cluster, Redis } from 'ioredis';
import { checkedSlots, followable } from './cluster-replies.ts';
import { isReadOnly, reasonOf } from './reason.ts';

/**
 * Works around defects of ioredis on a Cluster: it connects to a node only for its first command, trusts what nodes
 * report about each other, and does not report waiting for a Cluster that is not ready.
 */
export function mendCluster(cluster: Cluster): void {
  cluster.on('+node', checkReplies);
  cluster.on('+node', outliveAsking);
  connectEachNode(cluster);
  reportDelays(cluster);
}

/** Otherwise a node is connected to for its first command, and commands are refused until then. */
function connectEachNode(cluster: Cluster): void {
  const connectTo = (node: Redis): void => {
    if (node.status === 'wait') node.connect().catch(() => {}); // reported as an error of the Cluster
  };
  cluster.on('ready', () => cluster.nodes().forEach(connectTo));
  cluster.on('+node', (node: Redis) => {
    if (cluster.status === 'ready') connectTo(node); // before that, the Cluster itself queries one of them
  });
}

/** `reconnectOnError` sees each error before the Cluster, which interprets the message. */
function checkReplies(node: Redis): void {
  const { host = '' } = node.options;
  node.options.reconnectOnError = (error) => {
    error.message = followable(error.message, host);
    return isReadOnly(error);
  };
  const duplicate = node.duplicate.bind(node);
  node.duplicate = (override) => withCheckedSlots(duplicate(override), host);
}

/** ASKING is sent without a handler for its failure, which would end the process; the call after it fails as well. */
function outliveAsking(node: Redis): void {
  const asking = node.asking.bind(node);
  node.asking = () => {
    const done = asking();
    done.catch(() => {});
    return done;
  };
}

type Callback = (error: unknown, reply?: unknown) => void;

/** The Cluster queries the slots through a copy of the connection, with a callback. */
function withCheckedSlots(copy: Redis, ownHost: string): Redis {
  // overloaded in the types
  const commands = copy as unknown as { cluster(subcommand: string, done: Callback): unknown };
  const cluster = commands.cluster.bind(copy);
  commands.cluster = (subcommand, done) =>
    cluster(subcommand, (error, reply) => {
      if (error) return done(error);
      let slots: unknown;
      try {
        slots = checkedSlots(reply, ownHost);
      } catch (problem) {
        return done(problem);
      }
      done(null, slots);
    });
  return copy;
}

/** A Cluster that is not ready this long after the start, or after the loss of its last connection, is an error. */
const DELAY_MS = 5_000;

/** ioredis retries silently if nodes answer but have no slots, or report that the Cluster is down. */
function reportDelays(cluster: Cluster): void {
  let problem = 'CLUSTER INFO on its nodes shows its state';
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  const begin = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      cluster.emit('error', new Error(`the Cluster is not ready after ${DELAY_MS / 1_000} s: ${problem}`));
    }, DELAY_MS).unref();
  };
  cluster.on('node error', (error: Error, node: string) => {
    problem = `${node}: ${reasonOf(error)}`;
  });
  for (const event of ['ready', 'error', 'end']) cluster.on(event, stop);
  cluster.on('close', begin);
  begin();
}
