import { otherKinds } from '../../parts/limit-kinds.ts';
import { algorithms, type RateLimit } from '../algorithms/index.ts';
import type { AnyLimit, State } from '../algorithms/limit.ts';
import { allocation } from './allocation.ts';
import type { Claim } from './claim.ts';
import { type Counting, type NamedCounting, peek } from './counting.ts';
import { inFlight } from './in-flight.ts';
import type { Reports } from './reports.ts';
import type { Reserving } from './reserving.ts';
import type { Sharing } from './sharing.ts';

/** The rows that rules name; another key of a rule selects each of the others. */
const named = { ...algorithms, in_flight: inFlight, allocation } satisfies Readonly<Record<string, NamedCounting>>;

/** A new kind of limit adds a row here. */
const rows = {
  ...named,
  ...otherKinds,
} satisfies Readonly<Record<string, Counting>>;

export type NamedAlgorithm = keyof typeof named;
export type AlgorithmName = keyof typeof rows;

/** The numbers of one limit, discriminated by its algorithm: on a rate, on what is held, or of one site. */
export type Limit = {
  [N in AlgorithmName]: (typeof rows)[N] extends { capacity(limit: infer L): number } ? L : never;
}[AlgorithmName];

/** All names, in the order of the scripts: first the rates. */
export const algorithmNames = Object.keys(rows) as readonly AlgorithmName[]; // exactly the table's keys
export const namedAlgorithms = Object.keys(named) as readonly NamedAlgorithm[]; // likewise

/** The row of an algorithm that rules name. */
export const findNamedRow = (name: NamedAlgorithm): NamedCounting => named[name] as NamedCounting<AnyLimit>;

/** Most hits of a turn use limits of one algorithm; each lookup in the table costs V8 a search by name. */
let lastName: AlgorithmName = 'fixed_window';
let lastRow = rows.fixed_window as Counting;

/** The row of an algorithm, for uses that do not depend on the type of its limits. */
export function findRow(name: AlgorithmName): Counting {
  if (name === lastName) return lastRow;
  lastName = name;
  lastRow = rows[name] as Counting;
  return lastRow;
}

/** How hits of the limit are counted. 10 per minute by `fixed_window`: the row `fixedWindow`. */
// the row of the limit's own kind
export const algorithmFor = (limit: Limit): Counting<Limit> => findRow(limit.algorithm) as Counting<Limit>;

/** Whether the limit is on a rate: hits without holders, not of one site. It can be counted in several places. */
export const isRateLimit = (limit: Limit): limit is RateLimit => algorithmFor(limit).notARate === undefined;

/** Whether hits of the limit are reserved before their number is known. */
export const isReservation = (limit: Limit): limit is Limit & Reserving => algorithmFor(limit).reserves === true;

/** Whether exceeding the limit begins a block. */
export const canBlock = (limit: Limit): boolean => algorithmFor(limit).blocks === true;

/** What hits of the limit are: see `Counting.counts`. */
export const unitOf = (limit: Limit): 'hits' | 'slots' | 'allocated' => algorithmFor(limit).counts ?? 'hits';

/** The same for a written algorithm. */
export function unitOfNamed(written: string | undefined): ReturnType<typeof unitOf> {
  const name = namedAlgorithms.find((one) => one === written);
  return (name && findNamedRow(name).counts) ?? 'hits';
}

/** Whether the limit is on requests in flight: a number of slots, or an estimated one. */
export const limitsInFlight = (limit: Limit): boolean => unitOf(limit) === 'slots';

/** A limit on a rate or on slots that children share. */
export type SharedLimit = Limit & Sharing;

export const isShared = (limit: Limit): limit is SharedLimit => 'path' in limit;

/** Whether hits of the limit have holders: see `Claim`. */
export const hasHolders = (limit: Limit): boolean => algorithmFor(limit).hasHolders === true;

/** Whether releases of the limit may state the status of the response. */
export const measures = (limit: Limit): boolean => algorithmFor(limit).measures === true;

/** Whether a counter can go into debt by any number of hits: `charge: always`. */
export const canOwe = (name: AlgorithmName): boolean =>
  findRow(name).notARate === undefined && !findRow(name).state.keepsEntries;

/** The algorithm that a rule names for a limit: if hits are reserved first, that of the inner counter. */
export const namedAlgorithm = (limit: Limit): NamedAlgorithm =>
  (algorithmFor(limit).named?.(limit) ?? limit.algorithm) as NamedAlgorithm; // rows of others have `named`

/** The algorithms that have a key of a rule. */
export const algorithmsWith = (key: NamedCounting['keys'][number]): readonly NamedAlgorithm[] =>
  namedAlgorithms.filter((name) => findNamedRow(name).keys.includes(key));

/** Hits that fit into an unused counter without a flag: the value that `remaining` counts down from. */
export const nominalCapacity = (limit: Limit): number => algorithmFor(limit).capacity(limit);

/** Hits that fit into an unused counter, including the soft ones. */
export const fullCapacity = (limit: Limit): number => nominalCapacity(limit) + limit.soft;

/** Hits that a decision compared with those of its request and those used before. */
export const capacityAt = (limit: Limit, { capacity = fullCapacity(limit) }: Reports): number => capacity;

/** Maximum time that a counter of the limit keeps a hit. */
export const longestMemoryMs = (limit: Limit): number => algorithmFor(limit).longestMemoryMs(limit);

/** Maximum number of integers in a limit's state, to which the cost of a step is proportional; 0: it is constant. */
export const longestState = (limit: Limit, claim?: Claim): number =>
  algorithmFor(limit).state.longest?.(limit, claim) ?? 0;

/** See `Row.waitForMoreMs`. */
export const waitForMoreMs = (limit: Limit, hits: number): number | undefined =>
  algorithmFor(limit).waitForMoreMs?.(limit, hits);

/** The same limit, with at most this delay. */
export const capDelay = (limit: Limit, maxHoldMs: number): Limit =>
  'maxDelayMs' in limit && limit.maxDelayMs > maxHoldMs ? { ...limit, maxDelayMs: maxHoldMs } : limit;

/** Whether two limits of one counter, whose name includes the boundaries of calendar windows, make equal decisions. */
export const isSameLimit = (one: Limit, other: Limit): boolean =>
  one === other || JSON.stringify(one) === JSON.stringify(other);

/** A counter as it is, without spending hits. */
export const describeCounter = (limit: Limit, state: State | undefined, nowMs: number, claim?: Claim) =>
  peek(algorithmFor(limit), limit, state, nowMs, claim);
