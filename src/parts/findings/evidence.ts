import type { Clock } from '../../base/clock.ts';
import type { MissedBy } from '../../edge/rls/service.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import { type CounterKey, inOnePiece } from '../../engine/backends/key.ts';
import type { KnownCounter } from '../../engine/decide/counter-key.ts';
import type { Answer, OtherDecision, Verdict } from '../../engine/decide/decide.ts';
import type { BoundedHits } from '../../engine/decide/plan.ts';
import { hitsOf } from '../../engine/decide/priced.ts';
import { isShared, limitsInFlight } from '../../engine/holds/limits.ts';
import { commitEvents } from '../../engine/holds/reports.ts';
import { MIN_STATUS } from '../../engine/ledger/debit.ts';
import type { Lapse } from '../../engine/ledger/reservations.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { Cardinality, type CardinalityJump } from './cardinality.ts';
import { keptText, MAX_TEXT_LENGTH, type NamedProxy, Proxies, type Sender, UNKNOWN_PROXY } from './proxies.ts';
import { addTo, allZero, newSlots, RECENT_SLOTS, type Slots, shift, sum } from './slots.ts';

/** Calls without a descriptor. */
export interface EmptyCalls {
  readonly domain: string;
  readonly by: NamedProxy;
  readonly calls: Slots;
  readonly sinceMs: number;
  /** `hits_addend` of the last one. */
  hits: number;
}

/**
 * looks, ones, charges    checks that count nothing or reserve, requests of one hit, and charges of more or of reserved
 *                         hits
 * releases, idle, refused  releases, those that freed no slot, and refused requests, whose releases free none
 */
export const pairCounts = ['looks', 'ones', 'charges', 'releases', 'idle', 'refused'] as const;

/** Requests of one rule by one proxy, some of which should be followed by others. */
export interface PairedCalls extends Readonly<Record<(typeof pairCounts)[number], Slots>> {
  readonly domain: string;
  readonly rule: string;
  readonly place: Rule['place'];
  readonly by: NamedProxy;
  readonly example: readonly Entry[];
  /** The first check since the last charge, and the first release that freed no slot. */
  unchargedSinceMs: number | undefined;
  idleSinceMs: number | undefined;
}

/** Requests of one rule that charged or gave back more hits than were counted. */
export interface BoundedCalls extends Pick<PairedCalls, 'domain' | 'rule' | 'place' | 'example'> {
  readonly calls: Slots;
  readonly sinceMs: number;
  /** The hits of the last one, and what was counted, as people write them. */
  hits: string;
  counted: string;
}

/** Calls that a limit refused which children share. */
export interface RefusedChildren extends Omit<BoundedCalls, 'hits' | 'counted'> {
  /** The key of the children, and its different values among `SAMPLE` of them. */
  readonly key: string;
  readonly values: number;
}

/** Reservations of one counter, of which some were not committed within their ttl. */
export interface LapsedCounter extends Pick<PairedCalls, 'domain' | 'rule' | 'place' | 'example'> {
  readonly key: CounterKey;
  readonly isCharged: boolean;
  readonly sinceMs: number;
  readonly hits: Slots;
  readonly lapses: Slots;
  /** Made since the lapse before, the lapsed ones included. */
  readonly made: Slots;
}

/** Requests of one proxy that got no decision, by the reason that `weir_undecided_total` names. */
export interface UndecidedCalls extends Pick<EmptyCalls, 'by' | 'calls' | 'sinceMs'> {
  readonly reason: MissedBy | 'store' | 'overload' | 'other';
}

/** A sample of the requests of one proxy in one domain, of the last 30 to 40 seconds in a report. */
interface Traffic<C> {
  readonly domain: string;
  readonly by: NamedProxy;
  readonly requests: C;
  /** Requests by the keys of a descriptor, joined with commas. */
  readonly shapes: ReadonlyMap<string, C>;
  readonly keys: ReadonlyMap<string, SentKey<C>>;
}

interface SentKey<C> {
  readonly values: C;
  readonly placeholders: C;
  /** A value that stands for none, and since when all values were such. */
  placeholder: string | undefined;
  sinceMs: number | undefined;
}

interface KeptTraffic extends Traffic<Slots> {
  readonly shapes: Map<string, Slots>;
  readonly keys: Map<string, SentKey<Slots>>;
}

export type ProxyTraffic = Traffic<number>;

/** What one process has seen in the last minute that may show a mistake in a proxy's configuration. */
export interface EvidenceReport {
  readonly calls: readonly EmptyCalls[];
  readonly pairs: readonly PairedCalls[];
  readonly bounded: readonly BoundedCalls[];
  readonly children: readonly RefusedChildren[];
  readonly lapsed: readonly LapsedCounter[];
  readonly undecided: readonly UndecidedCalls[];
  readonly traffic: readonly ProxyTraffic[];
  /** A descriptor for each of its shapes, by `nameIn`. */
  readonly examples: ReadonlyMap<string, readonly Entry[]>;
  readonly jumps: readonly CardinalityJump[];
  /** Domains with reservations that were committed by other services. */
  readonly committed: readonly string[];
}

/** Bounds of what is kept; callers choose names. */
const MAX_NAMED = 256;
const MAX_PAIRS = 1_000;
const MAX_SHAPES = 16;
const MAX_KEYS = 32;
/** What is examined of a sampled request, and kept as an example. */
const MAX_DESCRIPTORS = 8;
const MAX_ENTRIES = 8;

/** Requests that are sampled in ten seconds, at least half of which are sampled at any higher rate. */
const MAX_SAMPLES = 2_000;

type LimitedVerdict = Extract<Verdict, { kind: 'limited' }>;

/** Collects evidence from requests: holds of all of them, and descriptors of a sample. */
export class Evidence {
  readonly #clock: Clock;
  readonly #startedAtMs: number;
  readonly #random: () => number;
  readonly #proxies = new Proxies();
  readonly #kept = {
    calls: new Map<string, EmptyCalls>(),
    pairs: new Map<string, PairedCalls>(),
    bounded: new Map<string, BoundedCalls>(),
    children: new Map<string, RefusedChildren>(),
    lapsed: new Map<CounterKey, LapsedCounter>(),
    undecided: new Map<string, UndecidedCalls>(),
    traffic: new Map<string, KeptTraffic>(),
    examples: new Map<string, readonly Entry[]>(),
    cardinalities: new Map<string, Cardinality>(),
    committed: new Map<string, Slots>(),
  };
  /** Requests to skip before the next sampled one. */
  #skips = 0;
  #oneIn = 1;
  #samples = 0;
  #requests = 0;

  /** @param random  returns 0 to below 1 */
  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock;
    this.#startedAtMs = clock();
    this.#random = random;
  }

  /** Forgets all of it. */
  clear(): void {
    for (const kept of Object.values(this.#kept)) kept.clear();
  }

  /** Call with each invalid request. */
  invalid({ domain, descriptors, hits_addend: hits, problem }: WireRequest, caller: Sender): void {
    if (descriptors.length > 0 || domain === '' || problem !== undefined) return this.undecided('other', caller);
    const by = this.#proxies.identify(caller);
    const known = ensure(this.#kept.calls, nameIn(domain, by.proxy), MAX_NAMED, () => ({
      domain: keptText(domain),
      by,
      calls: newSlots(),
      sinceMs: this.#clock(),
      hits,
    }));
    if (!known) return;
    addTo(known.calls);
    known.hits = hits;
  }

  /** Call with each request that gets no decision. @param caller  undefined if it is not known */
  undecided(reason: UndecidedCalls['reason'], caller: Sender | undefined): void {
    const by = caller ? this.#proxies.identify(caller) : { proxy: UNKNOWN_PROXY };
    const create = () => ({ reason, by, calls: newSlots(), sinceMs: this.#clock() });
    const known = ensure(this.#kept.undecided, nameIn(reason, by.proxy), MAX_NAMED, create);
    if (known) addTo(known.calls);
  }

  /** Call with each answer. */
  answered({ domain, descriptors, hits_addend: hits }: WireRequest, { verdicts }: Answer, caller: Sender): void {
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      if (!verdict || !('rule' in verdict)) continue;
      if (replacesSlots(verdict)) this.#addSlotless(verdict.rule, descriptors[at]?.entries ?? [], caller);
      if (verdict.kind !== 'limited') continue;
      const { rule, decision } = verdict;
      if (rule.ids !== undefined || rule.chargedLater || decision.holds !== undefined)
        this.#addPaired(verdict, descriptors[at]?.entries ?? [], {
          by: this.#proxies.identify(caller),
          stated: descriptors[at]?.hits_addend?.value ?? hits,
        });
      if (decision.share && decision.code === 'OVER_LIMIT')
        this.#addRefusedChild(verdict, descriptors[at]?.entries ?? []);
    }
    if (this.#skips > 0) this.#skips--;
    else this.#sample(domain, descriptors, caller);
  }

  /** Call when a reservation is committed through another service than the one that made it. */
  committed(domain: string): void {
    const known = ensure(this.#kept.committed, keptText(domain), MAX_NAMED, newSlots);
    if (known) addTo(known);
  }

  /** Call when a request charges or gives back more hits than are counted. */
  readonly bounded = ({ rule, entries, limit, hits, counted }: BoundedHits): void => {
    if (!rule.place) return; // the limit is from the request
    const known = ensure(this.#kept.bounded, rule.path, MAX_PAIRS, () => ({
      ...aboutRule(rule, entries),
      calls: newSlots(),
      sinceMs: this.#clock(),
      hits: '',
      counted: '',
    }));
    if (!known) return;
    addTo(known.calls);
    known.hits = showCount(limit, hits);
    known.counted = showCount(limit, counted);
  };

  /** Call when reservations have lapsed. */
  lapsed({ key, entries, rule }: KnownCounter, { limit, hits, count, made }: Lapse): void {
    const known = ensure(this.#kept.lapsed, key, MAX_PAIRS, () => ({
      ...aboutRule(rule, entries),
      key,
      isCharged: limit.onLapse === 'charge',
      sinceMs: this.#clock(),
      hits: newSlots(),
      lapses: newSlots(),
      made: newSlots(),
    }));
    if (!known) return;
    addTo(known.hits, hits);
    addTo(known.lapses, count);
    addTo(known.made, made);
  }

  /** Call every ten seconds. */
  rotate(): void {
    this.#oneIn = Math.max(Math.ceil(this.#requests / MAX_SAMPLES), 1);
    this.#samples = 0;
    this.#requests = 0;
    const { calls, pairs, bounded, children, lapsed, undecided, traffic, committed } = this.#kept;
    for (const kept of [calls, bounded, children, undecided] as const)
      shiftAll<{ readonly calls: Slots }>(kept, (one) => [one.calls]);
    shiftAll(lapsed, ({ hits, lapses, made }) => [hits, lapses, made]);
    shiftAll(committed, (commits) => [commits]);
    shiftAll(pairs, (pair) => pairCounts.map((name) => pair[name]));
    for (const { shapes, keys } of traffic.values()) {
      shiftAll(shapes, (requests) => [requests]);
      shiftAll(keys, ({ values, placeholders }) => [values, placeholders]);
    }
    shiftAll(traffic, ({ requests }) => [requests]);
    this.#kept.examples.clear();
    for (const [name, one] of this.#kept.cardinalities)
      if (!one.rotate(this.#clock())) this.#kept.cardinalities.delete(name);
  }

  report(): EvidenceReport {
    const { cardinalities, children, traffic, examples, committed, ...listed } = this.#kept;
    return {
      calls: [...listed.calls.values()],
      pairs: [...listed.pairs.values()],
      bounded: [...listed.bounded.values()],
      lapsed: [...listed.lapsed.values()],
      undecided: [...listed.undecided.values()],
      children: Array.from(children.values(), (one) => ({
        ...one,
        values: cardinalities.get(nameIn(one.domain, one.key))?.latest ?? 0,
      })),
      traffic: Array.from(traffic.values(), sumRecent),
      examples,
      jumps: [...cardinalities.values()].flatMap(({ jump }) => jump ?? []),
      committed: [...committed.keys()],
    };
  }

  #findPair(rule: Rule, entries: readonly Entry[], by: NamedProxy): PairedCalls | undefined {
    return ensure(this.#kept.pairs, nameIn(rule.path, by.proxy), MAX_PAIRS, () => createPair(rule, entries, by));
  }

  /** Notes a request whose release frees no slot, like that of a refused one. */
  #addSlotless(rule: Rule, entries: readonly Entry[], caller: Sender): void {
    const pair = this.#findPair(rule, entries, this.#proxies.identify(caller));
    if (pair) addTo(pair.refused);
  }

  #addPaired(
    verdict: LimitedVerdict,
    entries: readonly Entry[],
    { by, stated }: { readonly by: NamedProxy; readonly stated: number },
  ): void {
    const { rule, applied } = verdict;
    const hits = hitsOf(verdict);
    const pair = this.#findPair(rule, entries, by);
    if (!pair) return;
    if (rule.chargedLater)
      this.#addLater(pair, !rule.countWhen ? hits : stated < MIN_STATUS ? 0 : Number.POSITIVE_INFINITY);
    const all: readonly OtherDecision[] = applied ?? [verdict];
    for (const one of all) {
      const { holds, reservation, degraded } = one.decision;
      if (degraded) continue;
      if (reservation?.event === 'reserved') this.#addLater(pair, 0);
      else if (reservation && commitEvents.has(reservation.event)) this.#addLater(pair, Number.POSITIVE_INFINITY);
      if (holds) this.#addHold(pair, hits, one);
    }
  }

  #addRefusedChild({ rule, limit }: LimitedVerdict, entries: readonly Entry[]): void {
    const key = isShared(limit) ? limit.path.at(-1)?.key : undefined;
    if (key === undefined) return;
    const known = ensure(this.#kept.children, nameIn(rule.path, key), MAX_PAIRS, () => ({
      ...aboutRule(rule, entries),
      key,
      values: 0,
      calls: newSlots(),
      sinceMs: this.#clock(),
    }));
    if (known) addTo(known.calls);
  }

  #addLater(pair: PairedCalls, hits: number): void {
    addTo(hits > 1 ? pair.charges : hits === 1 ? pair.ones : pair.looks);
    const isCharge = hits > 1 || (hits === 1 && !allZero(pair.looks));
    pair.unchargedSinceMs = isCharge ? undefined : (pair.unchargedSinceMs ?? this.#clock());
  }

  /** Counts no release of a slot that may have been acquired before this process began. */
  #addHold(pair: PairedCalls, hits: number, { limit, decision }: OtherDecision): void {
    if (hits > 0 && decision.code === 'OVER_LIMIT') addTo(pair.refused);
    const nowMs = this.#clock();
    if (hits >= 0 || nowMs - this.#startedAtMs < limit.windowMs) return;
    addTo(pair.releases);
    if (decision.hitsBefore > (decision.holds?.held ?? 0)) return;
    addTo(pair.idle);
    pair.idleSinceMs ??= nowMs;
  }

  #sample(domain: string, descriptors: WireRequest['descriptors'], caller: Sender): void {
    this.#requests += this.#oneIn;
    if (++this.#samples % MAX_SAMPLES === 0) this.#oneIn *= 2;
    this.#skips = Math.floor(this.#random() * (2 * this.#oneIn - 1));
    const by = this.#proxies.identify(caller);
    const traffic = ensure(this.#kept.traffic, nameIn(domain, by.proxy), MAX_NAMED, () => ({
      domain: keptText(domain),
      by,
      requests: newSlots(),
      shapes: new Map(),
      keys: new Map(),
    }));
    if (!traffic) return;
    addTo(traffic.requests);
    for (const descriptor of descriptors.slice(0, MAX_DESCRIPTORS)) {
      const entries = descriptor.entries.slice(0, MAX_ENTRIES);
      this.#addShape(traffic, entries);
      for (const entry of entries) this.#addValue(traffic, entry);
    }
  }

  #addShape({ domain, shapes }: KeptTraffic, entries: readonly Entry[]): void {
    let name = '';
    for (const { key } of entries) name += name === '' ? key : `,${key}`;
    const known = name.length > MAX_TEXT_LENGTH ? undefined : ensure(shapes, name, MAX_SHAPES, newSlots);
    if (!known) return;
    addTo(known);
    ensure(this.#kept.examples, nameIn(domain, name), MAX_NAMED, () => keptEntries(entries));
  }

  #addValue({ domain, by, keys }: KeptTraffic, { key, value }: Entry): void {
    const known = key.length > MAX_TEXT_LENGTH ? undefined : ensure(keys, key, MAX_KEYS, createKey);
    if (!known) return;
    addTo(known.values);
    if (isPlaceholder(value)) {
      addTo(known.placeholders);
      known.placeholder = keptText(value);
      known.sinceMs ??= this.#clock();
    } else known.sinceMs = undefined;
    const create = (): Cardinality => new Cardinality(domain, inOnePiece(key), by, this.#clock());
    ensure(this.#kept.cardinalities, nameIn(domain, key), MAX_NAMED, create)?.add(value, by);
  }
}

/** Whether an override takes the place of a limit on slots. */
const replacesSlots = (verdict: Extract<Verdict, { readonly rule: Rule }>): boolean =>
  (verdict.kind === 'limited' ? verdict.found.overridden === true : verdict.exempt === true) &&
  verdict.rule.limits.some(({ limit }) => limitsInFlight(limit));

/** A name within a domain or a rule. */
export const nameIn = (scope: string, name: string): string =>
  `${scope.length}:${scope.slice(0, MAX_TEXT_LENGTH)}${name}`;

/** The entry of a map; a new one if there is room. */
function ensure<T>(map: Map<string, T>, name: string, maximum: number, create: () => T): T | undefined {
  const known = map.get(name);
  if (known !== undefined || map.size >= maximum) return known;
  const fresh = create();
  map.set(inOnePiece(name), fresh);
  return fresh;
}

/** Starts the next slot, and drops the entries without any count in the last minute. */
function shiftAll<T>(map: Map<string, T>, listSlots: (one: T) => readonly Slots[]): void {
  for (const [name, one] of map) {
    const all = listSlots(one);
    all.forEach(shift);
    if (all.every(allZero)) map.delete(name);
  }
}

const aboutRule = ({ domain, path, place }: Rule, entries: readonly Entry[]) => ({
  domain,
  rule: path,
  place,
  example: keptEntries(entries),
});

const createPair = (rule: Rule, entries: readonly Entry[], by: NamedProxy): PairedCalls => ({
  ...aboutRule(rule, entries),
  by,
  looks: newSlots(),
  ones: newSlots(),
  charges: newSlots(),
  releases: newSlots(),
  idle: newSlots(),
  refused: newSlots(),
  unchargedSinceMs: undefined,
  idleSinceMs: undefined,
});

const createKey = (): SentKey<Slots> => ({
  values: newSlots(),
  placeholders: newSlots(),
  placeholder: undefined,
  sinceMs: undefined,
});

/** A small copy, since the process stands still while it is sent. */
function sumRecent({ requests, shapes, keys, ...names }: KeptTraffic): ProxyTraffic {
  const sumUp = (slots: Slots): number => sum(slots, 0, RECENT_SLOTS);
  const sumKey = (one: SentKey<Slots>): SentKey<number> => ({
    ...one,
    values: sumUp(one.values),
    placeholders: sumUp(one.placeholders),
  });
  return {
    ...names,
    requests: sumUp(requests),
    shapes: new Map(Array.from(shapes, ([name, slots]) => [name, sumUp(slots)])),
    keys: new Map(Array.from(keys, ([key, one]) => [key, sumKey(one)])),
  };
}

const keptEntries = (entries: readonly Entry[]): readonly Entry[] =>
  entries.slice(0, MAX_ENTRIES).map(({ key, value }) => ({ key: keptText(key), value: keptText(value) }));

/** Values that proxies and programs send for a value that they do not have. */
const placeholders: ReadonlySet<string> = new Set(' - unknown undefined null nil <nil> (null) none n/a'.split(' '));
const LONGEST_PLACEHOLDER = 9;

/** Whether a value stands for a missing one, or is a command of Envoy's formatter that was not replaced. */
const isPlaceholder = (value: string): boolean =>
  value.length <= LONGEST_PLACEHOLDER ? placeholders.has(value.toLowerCase()) : /^%[A-Z_]+(\(.*\))?%$/.test(value);
