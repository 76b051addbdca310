import { algorithmFor, algorithmNames } from '../../algorithms/index.ts';
import { capacityOf, type Decision, type Limit, type Spend, spends } from '../../algorithms/limit.ts';
import type { CounterKey } from '../key.ts';
import { describeShared } from '../shared-counters.ts';
import { askedTogether, type Hit, type Unavailable } from '../store.ts';

const BYTES = 8; // a double
const ACCEPTED = 1;
const CHARGED = 2;
/** What Redis says of a counter that other programs count on as well, where it is none: by the script's outcome. */
const spoilt: Readonly<Record<number, string>> = {
  4: 'redis: WRONGTYPE Operation against a key holding the wrong kind of value',
  5: 'redis: ERR value is not an integer or out of range',
};

/** What one `apply` of a store asks. */
export interface Asked {
  readonly hits: readonly Hit[];
  readonly spend: Spend;
}

export type Answers = readonly (Decision | Unavailable)[];

/** Requests as the script takes them: its KEYS and its packed ARGV[1]. The layout stands at the head of dispatcher.lua. */
export interface Batch {
  readonly keys: readonly CounterKey[];
  readonly packed: Buffer;
}

/** The step of counters that other programs count on as well: it comes after those of the algorithms. */
const SHARED = algorithmNames.length + 1;
const stepOf = Object.fromEntries(algorithmNames.map((name, at) => [name, at + 1])) as Record<
  Limit['algorithm'],
  number
>; // of every name

/**
 * Packs requests for one script call; a key that appears again is sent once, so that each hit on it sees those before, and so is a limit.
 *
 * @param nowMs  this process's clock: where calendar windows are looked for
 */
export function encodeBatch(requests: readonly Asked[], nowMs: number): Batch {
  const keys = new Map<CounterKey, number>();
  const limits = new Map<Limit | string, number>();
  const limitNumbers: number[] = [];
  const numbers: number[] = [];
  for (const { hits, spend } of requests) {
    numbers.push(spends.indexOf(spend), hits.length);
    for (const hit of hits) {
      const { key, limit, shared } = hit;
      const name = shared ? `${capacityOf(limit)} ${shared.ttlMs}` : limit; // a shared counter's time to live has its jitter
      let place = limits.get(name);
      if (place === undefined) {
        place = limits.size + 1;
        limits.set(name, place);
        packLimit(limitNumbers, hit, nowMs);
      }
      numbers.push(placeOf(keys, key), place, hit.hits, hit.blocks ? 1 : 0);
    }
  }
  return { keys: [...keys.keys()], packed: pack([limits.size, ...limitNumbers, ...numbers]) };
}

function placeOf(places: Map<CounterKey, number>, key: CounterKey): number {
  const known = places.get(key);
  if (known !== undefined) return known;
  places.set(key, places.size + 1);
  return places.size;
}

function packLimit(into: number[], { limit, shared }: Hit, nowMs: number): void {
  const args = shared ? [capacityOf(limit), shared.ttlMs] : algorithmFor(limit).scriptArgs(limit, nowMs);
  into.push(shared ? SHARED : stepOf[limit.algorithm], args.length, ...args);
}

function pack(numbers: readonly number[]): Buffer {
  const packed = Buffer.allocUnsafe(numbers.length * BYTES);
  for (let at = 0; at < numbers.length; at++) packed.writeDoubleLE(numbers[at] as number, at * BYTES); // the array has no holes
  return packed;
}

/**
 * Reads the script's reply: for each request one decision a hit, in the order in which they were packed.
 *
 * @param ownNowMs     this process's clock: shared counters are on its windows
 * @throws RangeError  when the reply is shorter than the hits ask for: it is not this script's
 */
export function decodeBatch(reply: Buffer, requests: readonly Asked[], ownNowMs: number): readonly Answers[] {
  let at = 0;
  const next = (): number => {
    const number = reply.readDoubleLE(at);
    at += BYTES;
    return number;
  };
  const nowMs = next();
  const decode = (hit: Hit, index: number, hits: readonly Hit[]): Decision | Unavailable => {
    const { limit, hits: count, shared } = hit;
    const outcome = next();
    const report: number[] = [];
    for (let left = next(); left > 0; left--) report.push(next());
    const reason = spoilt[outcome];
    if (reason) return { code: 'UNAVAILABLE', reason };
    const accepted = (outcome & ACCEPTED) !== 0;
    const charged = (outcome & CHARGED) !== 0;
    const decided = { hits: charged ? count : (askedTogether(hits)[index] ?? count), accepted, charged }; // as the script does
    if (shared) return describeShared(limit, shared, report, ownNowMs, decided);
    return algorithmFor(limit).describe(limit, report, nowMs, decided);
  };
  return requests.map(({ hits }) => hits.map(decode));
}
