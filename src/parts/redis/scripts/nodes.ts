import { LEAF_NUMBERS, NODE_NUMBERS, type ShareNode } from '../../../engine/holds/nodes.ts';
import { call, formatOf, unpackState } from './counters.ts';
import { redis, struct, unpack } from './lua.ts';

/**
 * The counters of a shared limit are a hash: the limit's own numbers in the field p, those of each child under its id. A
 * child that never had children is stored without the numbers of a parent.
 */

const LIMIT_FIELD = 'p';

export function newNode(): ShareNode {
  return [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
}

/** The node in a field; a new one if there is none, or if another program wrote it. */
function unpackNode(packed: string | false): ShareNode {
  if (packed !== false && packed.length === 8 * LEAF_NUMBERS) {
    const [at, level, guard, paid, claimedIn, used, borrowed] = struct.unpack<
      [number, number, number, number, number, number, number]
    >(formatOf(LEAF_NUMBERS), packed);
    if (at === Math.floor(at)) return [at, level, guard, paid, claimedIn, used, borrowed, 0, 0, 0, 0, 0, 0];
  }
  return (unpackState(packed, NODE_NUMBERS) ?? newNode()) as ShareNode; // of as many numbers
}

/** The fields of a hash, or an error. */
interface Fields extends ReadonlyArray<string | false> {
  readonly err?: string;
}

/** The nodes of a shared limit, of which the first name is that of the limit. */
export function readNodes(key: string, names: readonly string[]): ShareNode[] {
  const read = redis.pcall<Fields>('HMGET', key, ...unpack(names));
  const isOther = read.err !== undefined; // another program's value
  if (isOther) call('DEL', key);
  const count = names.length;
  const nodes: ShareNode[] = [];
  for (let at = 0; at < count; at++) nodes[at] = isOther ? newNode() : unpackNode(read[at] as string | false);
  return nodes;
}

/** Stores the nodes but those that no hit was charged to. */
export function writeNodes(
  key: string,
  names: readonly string[],
  nodes: readonly ShareNode[],
  nowMs: number,
  ttlMs: number,
): void {
  const written: string[] = [];
  const count = names.length;
  let end = 0;
  for (let at = 0; at < count; at++) {
    const node = nodes[at] as ShareNode; // one for each
    const name = names[at] ?? '';
    const isLeaf = node[LEAF_NUMBERS] === 0 && name !== LIMIT_FIELD;
    const length = isLeaf ? LEAF_NUMBERS : NODE_NUMBERS;
    if (node[0] !== 0) {
      written[end] = name;
      written[end + 1] = struct.pack(formatOf(length), ...unpack(node, 1, length));
      end += 2;
    }
  }
  if (end === 0) return;
  const added = call<number>('HSET', key, ...unpack(written));
  if (added > 0) sweepNodes(key, added, nowMs - ttlMs);
  call('PEXPIRE', key, ttlMs);
}

/** Drops forgotten ones among two children at random for each new one, so that they do not outnumber active ones. */
function sweepNodes(key: string, added: number, beforeMs: number): void {
  const found = call<readonly string[]>('HRANDFIELD', key, 2 * added, 'WITHVALUES');
  const end = found.length;
  for (let at = 0; at < end; at += 2) {
    const name = found[at] ?? '';
    const node = unpackNode(found[at + 1] ?? '');
    if (name !== LIMIT_FIELD && node[0] < beforeMs) call('HDEL', key, name);
  }
}
