import type { Cluster, Redis } from 'ioredis';
import { describeError, isReadOnly } from './reason.ts';

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
    problem = `${node}: ${describeError(error)}`;
  });
  for (const event of ['ready', 'error', 'end']) cluster.on(event, stop);
  cluster.on('close', begin);
  begin();
}

const SLOTS = 16_384;
const MAX_PORT = 65_535;

const isPort = (port: unknown): boolean => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= MAX_PORT;
const isSlot = (slot: unknown): boolean => Number.isInteger(slot) && Number(slot) >= 0 && Number(slot) < SLOTS;

/** `MOVED 3999 10.0.0.7:6381`: the slot, and the host and port of the node that has it. */
const REDIRECTION = /^(MOVED|ASK) (\d{1,5}) ([^ ]*):(\d{1,5})$/;

/**
 * An error of a node in a form that ioredis can handle: a redirection without a host gets the node's own. A malformed
 * one becomes an ordinary error, since ioredis would throw an uncaught exception, which ends the process.
 *
 * @see https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#moved-redirection
 */
function followable(message: string, ownHost: string): string {
  if (!/^(?:MOVED|ASK)(?: |$)/.test(message)) return message;
  const [, kind, slot, host, port] = REDIRECTION.exec(message) ?? [];
  if (slot === undefined || !isSlot(Number(slot)) || !isPort(Number(port)))
    return `ERR malformed redirection of a Cluster: ${message}`;
  return `${kind} ${slot} ${host || ownHost}:${port}`;
}

/**
 * A reply to CLUSTER SLOTS in a form that ioredis can read: nodes without a host get that of the queried node.
 *
 * @throws Error  it is malformed: ioredis would fail, or loop forever
 * @see https://redis.io/docs/latest/commands/cluster-slots/
 */
function checkedSlots(reply: unknown, ownHost: string): readonly unknown[] {
  const ranges = asArray(reply);
  let count = 0;
  return ranges.flatMap((range) => {
    const [first, last, ...nodes] = asArray(range);
    if (!isSlot(first) || !isSlot(last) || Number(first) > Number(last)) throw malformed(`slots ${first} to ${last}`);
    count += Number(last) - Number(first) + 1;
    if (count > SLOTS) throw malformed(`more than ${SLOTS} slots`);
    const [master, ...replicas] = nodes.map((node) => checkedNode(node, ownHost));
    return master ? [[first, last, master, ...replicas.filter((node) => node !== undefined)]] : [];
  });
}

/** @returns undefined  the node has no such port: while a Cluster changes to TLS, nodes have one or the other */
function checkedNode(node: unknown, ownHost: string): readonly unknown[] | undefined {
  const [host, port, ...more] = asArray(node);
  if (port === 0) return undefined;
  if (!isPort(port)) throw malformed(`port ${port}`);
  if (host !== null && typeof host !== 'string') throw malformed(`a host that is a ${typeof host}`);
  return [host || ownHost, port, ...more];
}

function asArray(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw malformed(value === null ? 'nil' : `a ${typeof value}`);
}

const malformed = (what: string): Error => new Error(`the reply to CLUSTER SLOTS is malformed: ${what}`);
