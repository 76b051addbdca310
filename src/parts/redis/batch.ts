import { type Spend, spends } from '../../engine/algorithms/limit.ts';
import { marksRefusal, type Operation, signedHits, standsAlone } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { packNumbers } from '../../engine/backends/packed-state.ts';
import { kinds } from '../../engine/backends/requests.ts';
import { heldAt } from '../../engine/backends/usage.ts';
import { isClaim } from '../../engine/holds/claim.ts';
import {
  algorithmFor,
  algorithmNames,
  fullCapacity,
  isShared,
  type Limit,
  longestMemoryMs,
} from '../../engine/holds/limits.ts';
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

/** The input of one `run` of the backend. */
export interface BatchRequest {
  readonly operations: readonly Operation[];
  readonly spend: Spend;
  readonly receipts?: boolean | undefined;
  /** No refund is void because its counter was reset. */
  readonly areResetsKnown?: true;
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
  /** The key of the time when a counter was reset, on the counter's node. */
  readonly resetKeyOf?: (key: CounterKey) => string;
  /** Hits of metered operations are usage. */
  readonly metersUsage?: boolean;
}

/**
 * Packs requests for one script call. Each key and each limit is sent once, so that operations on the same counter see
 * each other's changes. The operations of requests that spend `each` are independent, so those that only spend join the
 * run of their limit; the order on each counter is kept.
 *
 * @param nowMs  this process's clock, around which calendar windows are computed
 */
export function encodeBatch(requests: readonly BatchRequest[], nowMs: number, options: EncodeOptions = {}): Batch {
  const encoder = new Encoder(nowMs, options);
  let operationCount = 0;
  for (const request of requests) {
    encoder.add(request, operationCount);
    operationCount += request.operations.length;
  }
  return encoder.finish(requests, operationCount);
}

/** Operations are numbered through all requests of the batch. */
class Encoder {
  readonly keys = new Names();
  /** What usage is booked under besides keys. */
  readonly names = new Names();
  /** One for each limit, with the number of hits of the limit's first spend. */
  readonly runs: Run[] = [];
  /** The same of shared limits, of which a batch has few. */
  readonly trees: Tree[] = [];
  readonly groups: Group[] = [];
  isMetered = false;
  readonly #nowMs: number;
  readonly #options: EncodeOptions;
  /** The places of limits, from 1; those shared with other programs by their numbers. Without those of claims. */
  readonly #limits = new Map<Limit | string, number>();
  readonly #limitNumbers: number[] = [];
  /** The number of limits; one with a claim is listed again for each operation. */
  #limitCount = 0;
  readonly #groupNumbers: number[] = [];
  /** By the limit's place. */
  readonly #runs: (Run | undefined)[] = [];
  /** For each key, by its place: its counter in a run, or `CLOSED`. */
  readonly #spent: (SpentCounter | typeof CLOSED | undefined)[] = [];

  constructor(nowMs: number, options: EncodeOptions) {
    this.#nowMs = nowMs;
    this.#options = options;
  }

  /** @param first  the number of its first operation */
  add(request: BatchRequest, first: number): void {
    const { operations, spend } = request;
    if (spend !== 'each') return this.#addGroup({ request, operations, first });
    for (let at = 0; at < operations.length; at++) {
      const operation = operations[at] as Operation; // in range
      if (!this.#join(operation, first + at)) this.#addGroup({ request, operations: [operation], first: first + at });
    }
  }

  finish(requests: readonly BatchRequest[], operationCount: number): Batch {
    const numbers = [this.#limitCount, ...this.#limitNumbers, this.runs.length];
    for (const run of this.runs) packRun(numbers, run);
    numbers.push(this.trees.length);
    for (const tree of this.trees) tree.pack(numbers);
    for (const number of this.#groupNumbers) numbers.push(number);
    return {
      keys: this.keys.all,
      packed: packNumbers(numbers),
      requests,
      operationCount,
      runs: this.runs,
      trees: this.trees,
      groups: this.groups,
      nowMs: this.#nowMs,
      isMetered: this.isMetered,
      usageNames: this.names.all,
    };
  }

  #addGroup(group: Group): void {
    const { request, operations } = group;
    this.groups.push(group);
    addRecord(this.#groupNumbers, requestAt, { spend: spends.indexOf(request.spend), count: operations.length });
    for (const operation of operations) this.#addOperation(operation, request);
  }

  #addOperation(operation: Operation, { spend, areResetsKnown }: BatchRequest): void {
    const { kind, limit, blocks } = operation;
    const into = this.#groupNumbers;
    const key = this.keys.placeOf(operation.key);
    this.#spent[key] = CLOSED;
    const isMetered = this.#meters(operation);
    addRecord(into, operationAt, {
      key,
      limit: this.#placeOfLimit(operation),
      hits: signedHits(operation),
      kind: kinds.indexOf(kind === 'peek' && operation.hits === 0 ? 'spend' : kind),
      role: roleOf(operation, spend),
      blocks: Number(blocks),
      isMetered: Number(isMetered),
    });
    if (isMetered && kind === 'give_back') addRecord(into, heldPlaces, heldAt(operation));
    if (kind === 'refund' || kind === 'forget') {
      const { resetKeyOf = (name) => `reset|${name}` } = this.#options;
      const ms = kind === 'refund' ? operation.chargedAtMs : longestMemoryMs(limit);
      addRecord(into, resetAt, { key: areResetsKnown ? 0 : this.keys.placeOf(resetKeyOf(operation.key)), ms });
    }
    if (!hasNodes(limit)) return;
    const [first = 0, second = 0, third = 0] = operation.share?.children ?? [];
    into.push(this.#placeOfUsage(operation, key));
    addRecord(into, pathAt, { first, second, third });
  }

  /** @returns false if the spend can join no run and no tree */
  #join(operation: Operation, number: number): boolean {
    if (operation.kind !== 'spend' || operation.shared) return false;
    const key = this.keys.placeOf(operation.key);
    return hasNodes(operation.limit) ? this.#joinTree(operation, key, number) : this.#joinRun(operation, key, number);
  }

  #joinRun(operation: Operation, key: number, number: number): boolean {
    const known = this.#spent[key];
    if (known !== undefined) {
      if (known === CLOSED || !isRepeated(operation, known.run)) return false;
      known.numbers.push(number);
      return true;
    }
    const limit = this.#placeOfLimit(operation);
    const isMetered = this.#meters(operation);
    const run = this.#runs[limit] ?? this.#beginRun(operation, limit, isMetered);
    if (run.spend.hits !== operation.hits || run.isMetered !== isMetered) return false;
    const counter = { run, key, numbers: [number] };
    this.#spent[key] = counter;
    run.counters.push(counter);
    return true;
  }

  #beginRun(spend: Operation, limit: number, isMetered: boolean): Run {
    const mayRepeat = !isClaim(spend) && algorithmFor(spend.limit).windows?.(spend.limit) !== 'calendar';
    const run: Run = { spend, limit, isMetered, mayRepeat, counters: [] };
    this.#runs[limit] = run;
    this.runs.push(run);
    return run;
  }

  #joinTree(operation: Operation, key: number, number: number): boolean {
    if (this.#spent[key] === CLOSED) return false;
    let tree = this.trees.find((one) => one.key === key);
    if (!tree) {
      tree = new Tree(key);
      this.trees.push(tree);
    }
    const usage = this.#meters(operation) ? this.#placeOfUsage(operation, key) : 0;
    tree.add(operation, number, this.#placeOfLimit(operation), usage);
    return true;
  }

  /** Whether its hits are usage. */
  #meters({ metered }: Operation): boolean {
    const isCounted = this.#options.metersUsage === true && metered !== undefined;
    this.isMetered ||= isCounted;
    return isCounted;
  }

  /** What the usage of an operation is booked under. */
  #placeOfUsage({ usageKey }: Operation, key: number): number {
    return usageKey === undefined ? key : -this.names.placeOf(usageKey);
  }

  /** The place of the operation's limit among the limits, to which it is added if necessary. */
  #placeOfLimit(operation: Operation): number {
    const { limit, shared } = operation;
    const isOwn = isClaim(operation) && !isAsRuled(operation);
    const name = shared ? `${fullCapacity(limit)} ${shared.ttlMs}` : limit;
    const known = isOwn ? undefined : this.#limits.get(name);
    if (known !== undefined) return known;
    this.#limitCount++;
    if (!isOwn) this.#limits.set(name, this.#limitCount);
    const args = shared
      ? [fullCapacity(limit), shared.ttlMs]
      : algorithmFor(limit).scriptArgs(limit, this.#nowMs, operation);
    this.#limitNumbers.push(shared ? SHARED_WINDOW : places[limit.algorithm], args.length, ...args);
    return this.#limitCount;
  }
}

/** The places of algorithms in the script's table, and that of counters shared with envoyproxy/ratelimit. */
const places = Object.fromEntries(algorithmNames.map((name, at) => [name, at + 1])) as Record<
  Limit['algorithm'],
  number
>; // has every name
const SHARED_WINDOW = algorithmNames.length + 1;

const hasNodes = (limit: Limit): boolean => algorithmFor(limit).state.hasNodes === true;

/** Whether the numbers of the limit are the same for all children of its rule. */
const isAsRuled = ({ limit, share }: Operation): boolean =>
  isShared(limit) && share?.threshold === undefined && share?.children.length === limit.path.length;

function roleOf(operation: Operation, spend: Spend): number {
  if (spend === 'each') return operation.commits ? roles.commits : roles.ordinary;
  if (standsAlone(operation)) return roles.alone;
  return marksRefusal(operation) ? roles.marks : roles.ordinary;
}

/** Adds the numbers of a record. @param order  that of its numbers: see scripts/format.ts */
function addRecord<P extends object>(
  into: number[],
  order: P,
  record: Readonly<Record<Exclude<keyof P, 'size'>, number>>,
): void {
  const numbers: Readonly<Record<string, number>> = record;
  for (const name in order) if (name !== 'size') into.push(numbers[name] as number); // it has each one
}

/** Texts, each once, and their places. */
class Names {
  readonly all: string[] = [];
  readonly #places = new Map<string, number>();
  #last: string | undefined;
  #lastPlace = 0;

  /** From 1. */
  placeOf(name: string): number {
    if (name === this.#last) return this.#lastPlace; // calls of a turn often share a key
    const known = this.#places.get(name);
    this.#last = name;
    this.#lastPlace = known ?? this.all.push(name);
    if (known === undefined) this.#places.set(name, this.#lastPlace);
    return this.#lastPlace;
  }
}

/** Independent spends of the same number of hits under one limit, before all other operations on their counters. */
export interface Run {
  /** The first of them; the others differ in their counters. */
  readonly spend: Operation;
  /** The place of the limit. */
  readonly limit: number;
  /** The hits are usage. */
  readonly isMetered: boolean;
  /** Whether this process can repeat the steps; the script only knows a few of a calendar's boundaries. */
  readonly mayRepeat: boolean;
  readonly counters: SpentCounter[];
}

/** A counter of a run, by the place of its key, and the numbers of its spends. */
interface SpentCounter {
  readonly run: Run;
  readonly key: number;
  readonly numbers: number[];
}

/** The place of a counter that can join no run any more: later spends must keep their order after another operation. */
const CLOSED = 'closed';

/** Whether an operation is the same spend again, on a counter of the run. */
const isRepeated = (operation: Operation, { spend, mayRepeat }: Run): boolean =>
  spend.limit === operation.limit &&
  spend.hits === operation.hits &&
  spend.metered === operation.metered &&
  mayRepeat &&
  !isClaim(operation);

function packRun(into: number[], { spend, limit, isMetered, counters }: Run): void {
  const repeated = counters.filter(({ numbers }) => numbers.length > 1);
  addRecord(into, runAt, {
    ...{ limit, hits: spend.hits, isMetered: Number(isMetered) },
    ...{ once: counters.length - repeated.length, repeated: repeated.length },
  });
  for (const { key, numbers } of counters) if (numbers.length === 1) into.push(key);
  for (const { key, numbers } of repeated) into.push(key, numbers.length);
}

/** Spends on one shared limit, in their order. They come before all other operations on it. */
class Tree {
  readonly key: number;
  readonly operations: Operation[] = [];
  /** The numbers of the operations. */
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

  pack(into: number[]): void {
    addRecord(into, treeAt, { key: this.key, children: this.#places.size, spends: this.operations.length });
    for (const id of this.#places.keys()) into.push(id);
    for (const spend of this.#spends) addRecord(into, treeSpendAt, spend);
  }

  #place(id: number | undefined): number {
    if (id === undefined) return 0;
    const place = this.#places.get(id) ?? this.#places.size + 1;
    this.#places.set(id, place);
    return place;
  }
}
