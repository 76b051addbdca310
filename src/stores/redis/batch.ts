import { algorithmFor, algorithmNames } from '../../algorithms/index.ts';
import { capacityOf, type Decision, type Spend, spends } from '../../algorithms/limit.ts';
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

/** Hits as the script takes them: its KEYS and its packed ARGV[1]. The layout stands at the head of dispatcher.lua. */
export interface Batch {
  readonly keys: readonly CounterKey[];
  readonly packed: Buffer;
}

/** The step of counters that other programs count on as well: it comes after those of the algorithms. */
const SHARED = algorithmNames.length + 1;

/**
 * Packs one request's hits for a script call; a key that appears twice is sent once, so that its second hit sees its first.
 *
 * @param nowMs  this process's clock: where calendar windows are looked for
 */
export function encodeBatch(hits: readonly Hit[], spend: Spend, nowMs: number): Batch {
  const places = new Map<CounterKey, number>();
  const numbers: number[] = [spends.indexOf(spend), hits.length];
  for (const hit of hits) {
    const { key, limit, shared } = hit;
    const place = places.get(key) ?? places.size + 1;
    places.set(key, place);
    const algorithm = shared ? SHARED : algorithmNames.indexOf(limit.algorithm) + 1;
    const limitNumbers = shared ? [capacityOf(limit), shared.ttlMs] : algorithmFor(limit).scriptArgs(limit, nowMs);
    numbers.push(place, algorithm, hit.hits, hit.blocks ? 1 : 0, limitNumbers.length, ...limitNumbers);
  }
  const packed = Buffer.allocUnsafe(numbers.length * BYTES);
  for (const [at, number] of numbers.entries()) packed.writeDoubleLE(number, at * BYTES);
  return { keys: [...places.keys()], packed };
}

/**
 * Reads the script's reply, one decision a hit, in the order in which they were packed.
 *
 * @param ownNowMs     this process's clock: shared counters are on its windows
 * @throws RangeError  when the reply is shorter than the hits ask for: it is not this script's
 */
export function decodeBatch(
  reply: Buffer,
  hits: readonly Hit[],
  ownNowMs: number,
): readonly (Decision | Unavailable)[] {
  let at = 0;
  const next = (): number => {
    const number = reply.readDoubleLE(at);
    at += BYTES;
    return number;
  };
  const nowMs = next();
  let together: readonly number[] | undefined; // only a request that is refused is not charged
  return hits.map(({ limit, hits: count, shared }, index) => {
    const outcome = next();
    const report = Array.from({ length: next() }, next);
    const reason = spoilt[outcome];
    if (reason) return { code: 'UNAVAILABLE', reason };
    const accepted = (outcome & ACCEPTED) !== 0;
    const charged = (outcome & CHARGED) !== 0;
    if (!charged) together ??= askedTogether(hits); // as the script does
    const decided = { hits: charged ? count : (together?.[index] ?? count), accepted, charged };
    if (shared) return describeShared(limit, shared, report, ownNowMs, decided);
    return algorithmFor(limit).describe(limit, report, nowMs, decided);
  });
}
