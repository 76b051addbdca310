import { inOnePiece } from '../../engine/backends/key.ts';
import type { Limit } from '../../engine/holds/limits.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { cutName, NameBudget, OTHER } from './caller-names.ts';
import { asStatisticName } from './statistic-name.ts';

/** Hits by outcome, with envoyproxy/ratelimit's names. */
export interface HitCounts {
  totalHits: number;
  withinLimit: number;
  nearLimit: number;
  overLimit: number;
  /** The part of `overLimit` that was refused from the local cache. */
  overLimitWithLocalCache: number;
  /** The part of `overLimit` that shadow mode did not let pass. */
  overLimitRefused: number;
  shadowMode: number;
  /** Hits of requests that passed on the soft part of a limit. */
  softLimit: number;
  /** Descriptors that the rule answered OK. */
  answeredOk: number;
  /** Descriptors that the rule answered OVER_LIMIT. */
  answeredOver: number;
}

export const NO_HITS: HitCounts = {
  ...{ totalHits: 0, withinLimit: 0, nearLimit: 0, overLimit: 0 },
  ...{ overLimitWithLocalCache: 0, overLimitRefused: 0, shadowMode: 0, softLimit: 0 },
  ...{ answeredOk: 0, answeredOver: 0 },
};
export const hitCounts = Object.keys(NO_HITS) as readonly (keyof HitCounts)[]; // NO_HITS has no other keys

/** The hits of one rule by outcome. */
export interface RuleCounts extends HitCounts {
  readonly domain: string;
  /** Names of the levels below the domain. */
  readonly levels: readonly string[];
  /** The levels' names, joined with dots. */
  readonly rule: string;
  readonly algorithm: Limit['algorithm'];
  readonly named: Rule['named'];
  /** Domain and levels as part of a statistic's name; not unique. */
  readonly key: string;
  /** The highest share of its limit that any counter of the rule had used. */
  readonly share: RecentMaximum;
  /** For limits on requests in flight; absent: none was seen. */
  holds?: HoldCounts;
  /** For limits with reservations; absent: none was seen. */
  reservations?: ReservationCounts;
}

/** The outcomes of a rule's reservations. */
interface ReservationSums {
  /** In hits. */
  reserved: number;
  committed: number;
  overrun: number;
  /** In commits. */
  late: number;
  unknown: number;
  repeated: number;
}

export interface ReservationCounts extends ReservationSums {
  /** The most hits on hold that any counter had. */
  readonly held: RecentMaximum;
}

/** A rule's slots in flight. */
export interface HoldCounts {
  /** Slots that expired unreleased. */
  expired: number;
  /** The most slots that any counter had. */
  readonly held: RecentMaximum;
  /** The longest time that any slot had been held, in milliseconds. */
  readonly oldestMs: RecentMaximum;
  /** The highest values of both since they were last taken. */
  peaks: HoldPeaks;
}

interface HoldPeaks {
  readonly held: number;
  readonly oldestMs: number;
}

const NO_PEAKS: HoldPeaks = { held: 0, oldestMs: 0 };

/** Returns the peaks since the last call, and resets them. */
export function takePeaks(holds: HoldCounts): HoldPeaks {
  const { peaks } = holds;
  holds.peaks = NO_PEAKS;
  return peaks;
}

/** The counts of one rule, as sent to another process. */
export type CountedRule = Omit<RuleCounts, 'rule' | 'key' | 'share' | 'holds' | 'reservations'> & {
  readonly highestShare: number;
  readonly holds?: { readonly expired: number; readonly held: number; readonly oldestMs: number };
  readonly reservations?: Readonly<ReservationSums> & { readonly held: number };
};

/** A rule, with the names of its levels for one request. */
type Found = { readonly rule: Rule; readonly levels: readonly string[] };

/**
 * The counts of rules, by name and algorithm. Rules whose names do not depend on requests always have their own counts.
 *
 * @param maxNameBytes  limit for names that contain callers' texts
 */
export function createRuleCounts(maxNameBytes: number) {
  const known = new Map<string, RuleCounts>();
  const byLimit = new WeakMap<Limit, RuleCounts>(); // of rules whose names do not depend on requests
  const others = newCounts(OTHER, [OTHER], 'fixed_window', 'by_request');
  const budget = new NameBudget(maxNameBytes);
  const byName = (
    domain: string,
    written: readonly string[],
    algorithm: Limit['algorithm'],
    named: Rule['named'],
  ): RuleCounts => {
    const levels = named === 'by_rule' ? written : cutName(written);
    const path = levels.join('.');
    // even if sent by another process: a page may contain a series only once
    if (domain === OTHER && path === OTHER) return others;
    const name = `${algorithm} ${domain.length}:${domain}.${path}`; // a dot in a domain could make two paths equal
    const counts = known.get(name);
    if (counts) return counts;
    if (named !== 'by_rule' && !budget.take(levels)) return others;
    const fresh = newCounts(domain, levels.map(inOnePiece), algorithm, named);
    known.set(inOnePiece(name), fresh);
    return fresh;
  };
  return {
    of: byName,
    ofLimit(domain: string, { rule, levels }: Found, limit: Limit): RuleCounts {
      const known = byLimit.get(limit);
      if (known) return known;
      const counts = byName(domain, levels, limit.algorithm, rule.named);
      if (rule.named === 'by_rule') byLimit.set(limit, counts);
      return counts;
    },
    /** Whether a rule whose name does not depend on requests has counts. */
    has: ({ domain, rule, algorithm, named }: Pick<RuleCounts, 'domain' | 'rule' | 'algorithm' | 'named'>): boolean =>
      named === 'by_rule' && known.has(`${algorithm} ${domain.length}:${domain}.${rule}`),
    /** A snapshot: rules counted later are not in the list. */
    all: (): readonly RuleCounts[] => [...known.values(), ...(others.totalHits > 0 ? [others] : [])],
  };
}

/** Records the slots that were seen in flight. */
export function noteHolds(
  counts: RuleCounts,
  { expired, held, oldestMs }: HoldPeaks & { readonly expired: number },
): void {
  counts.holds ??= { expired: 0, held: new RecentMaximum(), oldestMs: new RecentMaximum(), peaks: NO_PEAKS };
  const { holds } = counts;
  holds.expired += expired;
  holds.held.note(held);
  holds.oldestMs.note(oldestMs);
  const { peaks } = holds;
  if (held > peaks.held || oldestMs > peaks.oldestMs)
    holds.peaks = { held: Math.max(held, peaks.held), oldestMs: Math.max(oldestMs, peaks.oldestMs) };
}

const NO_RESERVATIONS: ReservationSums = { reserved: 0, committed: 0, overrun: 0, late: 0, unknown: 0, repeated: 0 };
const reservationSums = Object.keys(NO_RESERVATIONS) as readonly (keyof ReservationSums)[]; // it has no other keys

/** Adds the outcomes of reservations. */
export function noteReservations(
  counts: RuleCounts,
  { held, ...sums }: Readonly<ReservationSums> & { readonly held: number },
): void {
  counts.reservations ??= { ...NO_RESERVATIONS, held: new RecentMaximum() };
  for (const name of reservationSums) counts.reservations[name] += sums[name];
  counts.reservations.held.note(held);
}

function newCounts(
  domain: string,
  levels: readonly string[],
  algorithm: Limit['algorithm'],
  named: Rule['named'],
): RuleCounts {
  const rule = levels.join('.');
  const key = inOnePiece(asStatisticName(`${domain}.${rule}`));
  return { domain, levels, rule, algorithm, named, key, share: new RecentMaximum(), ...NO_HITS };
}

/** The time that one slot covers. */
const SLOT_MS = 15_000;
/** The number of slots that the last minute spans. */
const SLOTS = 5;

/**
 * The current slot, counted from the start of the process. A timer advances it, so that noting a value does not read
 * the clock.
 */
let slot = 0;
let isTicking = false;

/** The largest value of the last 60 to 75 seconds. */
export class RecentMaximum {
  #largest: number[] | undefined;
  #slot = 0;

  note(value: number): void {
    if (!isTicking) startTicking();
    this.#largest ??= new Array<number>(SLOTS).fill(0);
    if (this.#slot !== slot) this.#advance(this.#largest);
    const at = slot % SLOTS;
    if (value > (this.#largest[at] ?? 0)) this.#largest[at] = value;
  }

  /** 0: there was none. */
  get value(): number {
    if (!this.#largest) return 0;
    if (this.#slot !== slot) this.#advance(this.#largest);
    return Math.max(...this.#largest);
  }

  #advance(largest: number[]): void {
    for (let next = Math.max(this.#slot + 1, slot - SLOTS + 1); next <= slot; next++) largest[next % SLOTS] = 0;
    this.#slot = slot;
  }
}

function startTicking(): void {
  isTicking = true;
  setInterval(advance, SLOT_MS).unref();
}

function advance(): void {
  slot++;
}

/** For tests only: advances to the next slot. */
export const advanceRecentMaxima = advance;
