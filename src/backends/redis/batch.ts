import { algorithmFor, algorithmNames } from '../../algorithms/index.ts';
import { capacityOf, type Limit, longestMemoryMs, type Spend, spends } from '../../algorithms/limit.ts';
import { askedTogether, type Operation, type Replies, type Reply, signedHits } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import { describeShared } from '../shared-counters.ts';

const BYTES = 8; // a double
const ACCEPTED = 1;
const CHARGED = 2;
/** What Redis says of a counter that other programs count on as well, where it is none: by the script's outcome. */
const unusable: Readonly<Record<number, string>> = {
  4: 'redis: WRONGTYPE Operation against a key holding the wrong kind of value',
  5: 'redis: ERR value is not an integer or out of range',
};

/** What one `run` of the backend asks. */
export interface BatchRequest {
  readonly operations: readonly Operation[];
  readonly spend: Spend;
  readonly receipts?: boolean | undefined;
}

/** Requests as the script takes them: its KEYS and its packed ARGV[1]. The layout stands at the head of dispatcher.lua. */
export interface Batch {
  readonly keys: readonly string[];
  readonly packed: Buffer;
}

/** Where it is kept when a counter was forgotten: on the node that has the counter. */
export type ResetKeyOf = (key: CounterKey) => string;

/** The step of counters that other programs count on as well: it comes after those of the algorithms. */
const SHARED = algorithmNames.length + 1;
const stepOf = Object.fromEntries(algorithmNames.map((name, at) => [name, at + 1])) as Record<
  Limit['algorithm'],
  number
>; // of every name

/** What the script calls an operation; those that only count are told apart by their hits. */
const kinds = { spend: 0, give_back: 0, peek: 1, charge: 2, refund: 3, forget: 4 } as const;

/**
 * Packs requests for one script call; a key that appears again is sent once, so that each operation on it sees those before, and so is a limit.
 *
 * @param nowMs  this process's clock: where calendar windows are looked for
 */
export function encodeBatch(requests: readonly BatchRequest[], nowMs: number, resetKeyOf: ResetKeyOf = noReset): Batch {
  const keys = new Map<string, number>();
  const limits = new Map<Limit | string, number>();
  const limitNumbers: number[] = [];
  const numbers: number[] = [];
  for (const { operations, spend } of requests) {
    numbers.push(spends.indexOf(spend), operations.length);
    for (const operation of operations) {
      const { key, limit, shared } = operation;
      const name = shared ? `${capacityOf(limit)} ${shared.ttlMs}` : limit; // a shared counter's time to live has its jitter
      let place = limits.get(name);
      if (place === undefined) {
        place = limits.size + 1;
        limits.set(name, place);
        packLimit(limitNumbers, operation, nowMs);
      }
      const kind = operation.kind === 'peek' && operation.hits === 0 ? 0 : kinds[operation.kind];
      numbers.push(placeOf(keys, key), place, signedHits(operation), (operation.blocks ? 1 : 0) + 2 * kind);
      if (operation.kind === 'refund') numbers.push(placeOf(keys, resetKeyOf(key)), operation.chargedAtMs);
      if (operation.kind === 'forget') numbers.push(placeOf(keys, resetKeyOf(key)), longestMemoryMs(limit));
    }
  }
  return { keys: [...keys.keys()], packed: pack([limits.size, ...limitNumbers, ...numbers]) };
}

const noReset: ResetKeyOf = (key) => `reset|${key}`;

function placeOf(places: Map<string, number>, key: string): number {
  const known = places.get(key);
  if (known !== undefined) return known;
  places.set(key, places.size + 1);
  return places.size;
}

function packLimit(into: number[], { limit, shared }: Operation, nowMs: number): void {
  const args = shared ? [capacityOf(limit), shared.ttlMs] : algorithmFor(limit).scriptArgs(limit, nowMs);
  into.push(shared ? SHARED : stepOf[limit.algorithm], args.length, ...args);
}

function pack(numbers: readonly number[]): Buffer {
  const packed = Buffer.allocUnsafe(numbers.length * BYTES);
  for (let at = 0; at < numbers.length; at++) packed.writeDoubleLE(numbers[at] as number, at * BYTES); // the array has no holes
  return packed;
}

/**
 * Reads the script's reply: for each request one reply an operation, in the order in which they were packed.
 *
 * @param ownNowMs     this process's clock: shared counters are on its windows
 * @throws RangeError  when the reply is shorter than the operations ask for: it is not this script's
 */
export function decodeBatch(reply: Buffer, requests: readonly BatchRequest[], ownNowMs: number): readonly Replies[] {
  let at = 0;
  const next = (): number => {
    const number = reply.readDoubleLE(at);
    at += BYTES;
    return number;
  };
  const nowMs = next();
  const decode = (operation: Operation, index: number, { operations, spend }: BatchRequest): Reply => {
    const { limit, shared } = operation;
    const outcome = next();
    const report: number[] = [];
    for (let left = next(); left > 0; left--) report.push(next());
    const reason = unusable[outcome];
    if (reason) return { code: 'UNAVAILABLE', reason };
    const accepted = (outcome & ACCEPTED) !== 0;
    const charged = (outcome & CHARGED) !== 0;
    const hits = charged || spend === 'each' ? signedHits(operation) : (askedTogether(operations)[index] ?? 0); // as the script does
    const how = operation.kind === 'charge' ? 'regardless' : charged;
    const decided = { hits: isTakenBack(operation) ? 0 : hits, accepted, charged: how } as const;
    if (shared) return describeShared(limit, shared, report, ownNowMs, decided);
    return algorithmFor(limit).describe(limit, report, nowMs, decided);
  };
  return requests.map((request) => {
    const replies = request.operations.map((operation, index) => decode(operation, index, request));
    return request.receipts
      ? replies.map((one) => (one.code === 'UNAVAILABLE' ? one : { ...one, chargedAtMs: nowMs }))
      : replies;
  });
}

const isTakenBack = ({ kind }: Operation): boolean => kind === 'refund' || kind === 'forget';
