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
export function followable(message: string, ownHost: string): string {
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
export function checkedSlots(reply: unknown, ownHost: string): readonly unknown[] {
  const ranges = arrayOf(reply);
  let count = 0;
  return ranges.flatMap((range) => {
    const [first, last, ...nodes] = arrayOf(range);
    if (!isSlot(first) || !isSlot(last) || Number(first) > Number(last)) throw malformed(`slots ${first} to ${last}`);
    count += Number(last) - Number(first) + 1;
    if (count > SLOTS) throw malformed(`more than ${SLOTS} slots`);
    const [master, ...replicas] = nodes.map((node) => checkedNode(node, ownHost));
    return master ? [[first, last, master, ...replicas.filter((node) => node !== undefined)]] : [];
  });
}

/** @returns undefined  the node has no such port: while a Cluster changes to TLS, nodes have one or the other */
function checkedNode(node: unknown, ownHost: string): readonly unknown[] | undefined {
  const [host, port, ...more] = arrayOf(node);
  if (port === 0) return undefined;
  if (!isPort(port)) throw malformed(`port ${port}`);
  if (host !== null && typeof host !== 'string') throw malformed(`a host that is a ${typeof host}`);
  return [host || ownHost, port, ...more];
}

function arrayOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw malformed(value === null ? 'nil' : `a ${typeof value}`);
}

const malformed = (what: string): Error => new Error(`the reply to CLUSTER SLOTS is malformed: ${what}`);
