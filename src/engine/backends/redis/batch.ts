import { type Decision, type Outcome, type Spend, spends } from '../../algorithms/limit.ts';
import { type Claim, isClaim } from '../../holds/claim.ts';
import { algorithmFor, algorithmNames, isShared, type Limit, longestMemoryMs } from '../../holds/limits.ts';
import { marksRefusal, type Operation, signedHits, standsAlone } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import { kinds } from '../requests.ts';
import { heldAt } from '../usage.ts';
import { PackedNumbers } from './packed-numbers.ts';
import {
  heldAt as heldPlaces,
  operationAt,
  pathAt,
  requestAt,
  resetAt,
  roles,
  runAt,
  treeAt,
  treeSpendAt,
} from './scripts/format.ts';

/** Counters in another format, shared with other programs. */
export interface ForeignCounters {
  has(operation: Operation): boolean;
  /** The operation's limit in the script's format. */
  pack(operation: Operation): readonly number[];
  /** @param nowMs  this process's clock, which determines the counters' windows */
  describe(operation: Operation, report: readonly number[], nowMs: number, outcome: Outcome): Decision;
}

/** The input of one `run` of the backend. */
export interface BatchRequest {
  readonly operations: readonly Operation[];
  readonly spend: Spend;
  readonly receipts?: boolean | undefined;
}

/** Requests in the script's format: its KEYS and its packed ARGV[1]. The layout is described in scripts/format.ts. */
export interface Batch {
  readonly keys: readonly string[];
  readonly packed: Buffer;
  readonly requests: readonly BatchRequest[];
  /** The number of operations in all requests. */
  readonly operationCount: number;
  /** Counted and answered first. */
  readonly runs: readonly Run[];
  /** Likewise. */
  readonly trees: readonly Tree[];
  /** All other operations, in the order in which they are packed. */
  readonly groups: readonly Group[];
  /** This process's clock when the requests were packed. */
  readonly nowMs: number;
  readonly foreign: ForeignCounters | undefined;
  /** Some hits are usage. */
  readonly isMetered: boolean;
  /** What usage is booked under besides keys: on a Cluster, these names may belong to other slots. */
  readonly usageNames: readonly string[];
}

/** One independent operation, or all operations of a request that spends them as a set. */
interface Group {
  readonly request: BatchRequest;
  readonly operations: readonly Operation[];
  /** The number of the first operation. */
  readonly first: number;
}

interface EncodeOptions {
  readonly resetKeyOf?: ResetKeyOf;
  readonly foreign?: ForeignCounters | undefined;
  /** Hits of metered operations are usage. */
  readonly metersUsage?: boolean;
}

/** The key of the time when a counter was reset, on the counter's node. */
type ResetKeyOf = (key: CounterKey) => string;

const stepNumbers = Object.fromEntries(algorithmNames.map((name, at) => [name, at + 1])) as Record<
  Limit['algorithm'],
  number
>; // has every name

/** Buffers, reused for all batches. */
const packedHead = new PackedNumbers();
const packedRequests = new PackedNumbers();

/**
 * Packs requests for one script call. Each key and each limit is sent once, so that operations on the same counter see
 * each other's changes. The operations of requests that spend `each` are independent, so those that only spend join the
 * run of their limit; the order on each counter is kept.
 *
 * @param nowMs  this process's clock, around which calendar windows are computed
 */
export function encodeBatch(
  requests: readonly BatchRequest[],
  nowMs: number,
  { resetKeyOf = noReset, foreign, metersUsage = false }: EncodeOptions = {},
): Batch {
  const [keys, names] = [new BatchKeys(), new BatchKeys()];
  const limits: LimitTable = { few: [], places: new Map(), count: 0, numbers: [], nowMs, foreign };
  const runs = new Runs();
  const groups: Group[] = [];
  packedRequests.clear();
  let isMetered = false;
  const meters = ({ metered }: Operation): boolean => {
    const isCounted = metersUsage && metered !== undefined;
    isMetered ||= isCounted;
    return isCounted;
  };
  const packGroup = (group: Group): void => {
    const { spend } = group.request;
    groups.push(group);
    packedRequests.addRecord(requestAt, { spend: spends.indexOf(spend), count: group.operations.length });
    for (const operation of group.operations) {
      const key = keys.intern(operation.key);
      runs.close(key);
      const isCounted = meters(operation);
      packOperation(operation, spend, { key, limit: placeOfLimit(limits, operation), isMetered: isCounted ? 1 : 0 });
      if (isCounted && operation.kind === 'give_back') packedRequests.addRecord(heldPlaces, heldAt(operation));
      if (operation.kind === 'refund' || operation.kind === 'forget') {
        const ms = operation.kind === 'refund' ? operation.chargedAtMs : longestMemoryMs(operation.limit);
        packedRequests.addRecord(resetAt, { key: keys.intern(resetKeyOf(operation.key)), ms });
      }
      if (hasNodes(operation)) packPath(operation, placeOfUsage(operation, key, names));
    }
  };
  const joinRun = (operation: Operation, number: number): boolean => {
    if (operation.kind !== 'spend' || foreign?.has(operation)) return false;
    const place = keys.intern(operation.key);
    if (hasNodes(operation)) {
      const tree = runs.findTree(place);
      const usage = tree && meters(operation) ? placeOfUsage(operation, place, names) : 0;
      tree?.add(operation, number, placeOfLimit(limits, operation), usage);
      return tree !== undefined;
    }
    if (runs.repeat(operation, place, number)) return true;
    const placed = { limit: placeOfLimit(limits, operation), isMetered: meters(operation) };
    return runs.join(operation, place, placed, number);
  };
  let number = 0;
  for (const request of requests) {
    const { operations, spend } = request;
    if (spend !== 'each') packGroup({ request, operations, first: number });
    else
      for (let at = 0; at < operations.length; at++) {
        const operation = operations[at] as Operation; // in range
        if (!joinRun(operation, number + at)) packGroup({ request, operations: [operation], first: number + at });
      }
    number += operations.length;
  }
  packedHead.clear();
  packedHead.add(limits.count);
  packedHead.addAll(limits.numbers);
  runs.pack(packedHead);
  return {
    keys: keys.all,
    packed: packedHead.copyBefore(packedRequests),
    requests,
    operationCount: number,
    runs: runs.all,
    trees: runs.trees,
    groups,
    nowMs,
    foreign,
    isMetered,
    usageNames: names.all,
  };
}

/** What the usage of an operation is booked under. */
const placeOfUsage = ({ usageKey }: Operation, key: number, names: BatchKeys): number =>
  usageKey === undefined ? key : -names.intern(usageKey);

const hasNodes = ({ limit }: Operation): boolean => algorithmFor(limit).state.hasNodes === true;

/** @param usage  what its usage is booked under */
function packPath({ share }: Operation, usage: number): void {
  const [first = 0, second = 0, third = 0] = share?.children ?? [];
  packedRequests.add(usage);
  packedRequests.addRecord(pathAt, { first, second, third });
}

function packOperation(
  operation: Operation,
  spend: Spend,
  placed: { readonly key: number; readonly limit: number; readonly isMetered: number },
): void {
  const { kind, hits, blocks } = operation;
  packedRequests.addRecord(operationAt, {
    ...placed,
    hits: signedHits(operation),
    kind: kinds.indexOf(kind === 'peek' && hits === 0 ? 'spend' : kind),
    role: roleOf(operation, spend),
    blocks: blocks ? 1 : 0,
  });
}

function roleOf(operation: Operation, spend: Spend): number {
  if (spend === 'each') return operation.commits ? roles.commits : roles.ordinary;
  if (standsAlone(operation)) return roles.alone;
  return marksRefusal(operation) ? roles.marks : roles.ordinary;
}

/** The keys of a batch, each once. */
class BatchKeys {
  readonly all: string[] = [];
  readonly #places = new Map<string, number>();
  #last: string | undefined;
  #lastPlace = 0;

  /** From 1. */
  intern(key: string): number {
    if (key === this.#last) return this.#lastPlace; // calls of a turn often share a key
    this.#last = key;
    this.#lastPlace = this.#places.get(key) ?? 0;
    if (this.#lastPlace > 0) return this.#lastPlace;
    this.#lastPlace = this.all.push(key);
    this.#places.set(key, this.#lastPlace);
    return this.#lastPlace;
  }
}

/** The limits of a batch. */
interface LimitTable {
  /** The first limits, by place; most batches have few, which are faster to compare than to find in a map. */
  readonly few: Limit[];
  /** The places of limits, from 1; those of foreign limits by their packed form. Without those of claims. */
  readonly places: Map<Limit | string, number>;
  /** The number of limits; one with a claim is listed again for each operation. */
  count: number;
  readonly numbers: number[];
  readonly nowMs: number;
  readonly foreign: ForeignCounters | undefined;
}

const FEW_LIMITS = 4;

/** Whether the numbers of the limit are the same for all children of its rule. */
const isAsRuled = ({ limit, share }: Operation): boolean =>
  isShared(limit) && share?.threshold === undefined && share?.children.length === limit.path.length;

/** The place of the operation's limit in the table, to which it is added if necessary. */
function placeOfLimit(table: LimitTable, operation: Operation): number {
  const { few, places, numbers, nowMs, foreign } = table;
  const { limit } = operation;
  if (isClaim(operation) && !isAsRuled(operation)) {
    packLimit(numbers, operation, nowMs);
    return ++table.count;
  }
  if (!foreign) for (let at = 0; at < few.length; at++) if (few[at] === limit) return at + 1;
  const packed = foreign?.has(operation) ? foreign.pack(operation) : undefined;
  const name = packed?.join(' ') ?? limit;
  const known = places.get(name);
  if (known !== undefined) return known;
  if (packed) numbers.push(...packed);
  else packLimit(numbers, operation, nowMs);
  places.set(name, ++table.count);
  if (table.count <= FEW_LIMITS && few.length === table.count - 1) few.push(limit);
  return table.count;
}

const noReset: ResetKeyOf = (key) => `reset|${key}`;

function packLimit(into: number[], operation: Operation, nowMs: number): void {
  const { limit } = operation;
  const { scriptArgs } = algorithmFor(limit);
  const args = scriptArgs(limit, nowMs, operation);
  const step = stepNumbers[limit.algorithm];
  into.push(step, args.length, ...args);
}

/**
 * Independent spends of the same number of hits under one limit. They come before all other operations on their
 * counters. Operations are numbered through all requests of the batch.
 */
export interface Run {
  readonly limit: Limit;
  readonly hits: number;
  /** Of all its spends. */
  readonly claim: Claim;
  /** For each counter: its place among the keys. */
  readonly places: readonly number[];
  /** For each counter: the number of its first spend. */
  readonly spends: readonly number[];
  /** For each counter with several spends: the numbers of all of them. */
  readonly repeated: readonly (readonly number[] | undefined)[];
  /** The number of counters with several spends. */
  readonly repeatedCount: number;
}

/** The limit of a run by its place, and whether its hits are usage. */
interface RunLimit {
  readonly limit: number;
  readonly isMetered: boolean;
}

class OpenRun implements Run {
  readonly limit: Limit;
  readonly hits: number;
  readonly claim: Claim;
  /** In the table of limits. */
  readonly limitPlace: number;
  /** The hits are counted as usage. */
  readonly isCounted: boolean;
  /** Whether this process can repeat the steps; the script only knows a few of a calendar's boundaries. */
  readonly mayRepeat: boolean;
  readonly isMetered: Operation['metered'];
  readonly places: number[] = [];
  readonly spends: number[] = [];
  readonly repeated: (number[] | undefined)[] = [];
  repeatedCount = 0;

  constructor(operation: Operation, { limit: limitPlace, isMetered }: RunLimit) {
    const { limit, hits } = operation;
    this.limit = limit;
    this.hits = hits;
    this.claim = operation;
    this.limitPlace = limitPlace;
    this.isCounted = isMetered;
    this.isMetered = operation.metered;
    this.mayRepeat = !isClaim(operation) && algorithmFor(limit).windows?.(limit) !== 'calendar';
  }

  /** @returns the position of the counter in the run */
  add(keyPlace: number, number: number): number {
    this.spends.push(number);
    return this.places.push(keyPlace) - 1;
  }

  repeat(at: number, number: number): void {
    const known = this.repeated[at];
    if (known) known.push(number);
    else {
      this.repeated[at] = [this.spends[at] as number, number];
      this.repeatedCount++;
    }
  }

  pack(into: PackedNumbers): void {
    const { places, repeated } = this;
    into.addRecord(runAt, {
      limit: this.limitPlace,
      hits: this.hits,
      isMetered: this.isCounted ? 1 : 0,
      once: places.length - this.repeatedCount,
      repeated: this.repeatedCount,
    });
    if (this.repeatedCount === 0) return into.addAll(places);
    for (let at = 0; at < places.length; at++) if (!repeated[at]) into.add(places[at] as number);
    for (const [at, spends] of repeated.entries()) if (spends) into.addAll([places[at] as number, spends.length]);
  }
}

/** Spends on one shared limit, in their order. They come before all other operations on it. */
export interface Tree {
  readonly operations: readonly Operation[];
  /** The numbers of the operations. */
  readonly numbers: readonly number[];
}

class OpenTree implements Tree {
  readonly key: number;
  readonly operations: Operation[] = [];
  readonly numbers: number[] = [];
  /** The places of children, by id, from 1. */
  readonly #places = new Map<number, number>();
  readonly #spends: Readonly<Record<Exclude<keyof typeof treeSpendAt, 'size'>, number>>[] = [];

  constructor(key: number) {
    this.key = key;
  }

  /** @param usage  what its usage is booked under; 0 if it is none */
  add(operation: Operation, number: number, limit: number, usage: number): void {
    const [first, second, third] = operation.share?.children ?? [];
    const places = { first: this.#place(first), second: this.#place(second), third: this.#place(third) };
    this.operations.push(operation);
    this.numbers.push(number);
    this.#spends.push({ limit, hits: operation.hits, usage, ...places });
  }

  pack(into: PackedNumbers): void {
    into.addRecord(treeAt, { key: this.key, children: this.#places.size, spends: this.operations.length });
    for (const id of this.#places.keys()) into.add(id);
    for (const spend of this.#spends) into.addRecord(treeSpendAt, spend);
  }

  #place(id: number | undefined): number {
    if (id === undefined) return 0;
    const place = this.#places.get(id) ?? this.#places.size + 1;
    this.#places.set(id, place);
    return place;
  }
}

/** The position of a counter that can join no run any more. */
const CLOSED = -1;

/** The runs of a batch: one for each limit, with the number of hits of the limit's first spend. */
class Runs {
  readonly all: OpenRun[] = [];
  /** The same of shared limits, of which a batch has few. */
  readonly trees: OpenTree[] = [];
  /** By the limit's place. */
  readonly #byLimit: (OpenRun | undefined)[] = [];
  /** For each key, by its place: the run that it is in. */
  readonly #runs: (OpenRun | undefined)[] = [];
  /** For each key: its position in the run, or `CLOSED`. */
  readonly #positions: (number | undefined)[] = [];

  /** @returns false if the operation differs from the spends of its counter's run */
  repeat(operation: Operation, keyPlace: number, number: number): boolean {
    const run = this.#runs[keyPlace];
    const position = this.#positions[keyPlace];
    if (!run || position === undefined || position === CLOSED) return false;
    if (run.limit !== operation.limit || run.hits !== operation.hits || !run.mayRepeat) return false;
    if (isClaim(operation) || operation.metered !== run.isMetered) return false;
    run.repeat(position, number);
    return true;
  }

  /** @returns false if the batch already uses the counter, or the limit's run has another number of hits */
  join(operation: Operation, keyPlace: number, placed: RunLimit, number: number): boolean {
    if (this.#positions[keyPlace] !== undefined) return false;
    const run = this.#byLimit[placed.limit] ?? this.#begin(operation, placed);
    if (run.hits !== operation.hits || run.isCounted !== placed.isMetered) return false;
    this.#runs[keyPlace] = run;
    this.#positions[keyPlace] = run.add(keyPlace, number);
    return true;
  }

  /** @returns undefined if spends must keep their order after another operation */
  findTree(keyPlace: number): OpenTree | undefined {
    if (this.#positions[keyPlace] === CLOSED) return undefined;
    const known = this.trees.find(({ key }) => key === keyPlace);
    if (known) return known;
    const tree = new OpenTree(keyPlace);
    this.trees.push(tree);
    return tree;
  }

  /** Another operation uses the counter: later spends must keep their order after it. */
  close(keyPlace: number): void {
    this.#positions[keyPlace] = CLOSED;
  }

  pack(into: PackedNumbers): void {
    into.add(this.all.length);
    for (const run of this.all) run.pack(into);
    into.add(this.trees.length);
    for (const tree of this.trees) tree.pack(into);
  }

  #begin(operation: Operation, placed: RunLimit): OpenRun {
    const run = new OpenRun(operation, placed);
    this.#byLimit[placed.limit] = run;
    this.all.push(run);
    return run;
  }
}
