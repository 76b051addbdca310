import { algorithmFor, algorithmNames, type Limit, longestMemoryMs } from '../../algorithms/index.ts';
import { type Decision, type Outcome, type Spend, type State, spends } from '../../algorithms/limit.ts';
import { askedTogether, type Operation, type Replies, type Reply, signedHits, standsAlone } from '../backend.ts';
import type { CounterKey } from '../key.ts';
import type { Script } from './script.ts';

const BYTES = 8; // a double
const ACCEPTED = 1;
const CHARGED = 2;
/** Of repeated spends: the counter's state before the first follows, instead of a reply for each. */
const STATE_BEFORE = 8;
/** Counters that are kept otherwise than as states, on which other programs count as well. */
export interface ForeignCounters {
  /** The script that knows them, too. */
  readonly script: Script;
  has(operation: Operation): boolean;
  /** The operation's limit as the script takes it. */
  pack(operation: Operation): readonly number[];
  /** @param nowMs  this process's clock: the counters are on its windows */
  describe(operation: Operation, report: readonly number[], nowMs: number, outcome: Outcome): Decision;
  /** Why the counter cannot be counted on. */
  unusable(outcome: number): string | undefined;
}

/** What one `run` of the backend asks. */
export interface BatchRequest {
  readonly operations: readonly Operation[];
  readonly spend: Spend;
  readonly receipts?: boolean | undefined;
}

/**
 * Requests as the script takes them: its KEYS and its packed ARGV[1]. The layout stands at the head of dispatcher.lua.
 */
export interface Batch {
  readonly keys: readonly string[];
  readonly packed: Buffer;
  /** In the order in which they are packed. */
  readonly groups: readonly Group[];
  /** This process's clock when they were packed. */
  readonly nowMs: number;
  readonly foreign: ForeignCounters | undefined;
}

/** A request, or several that spend the same hits of the same counter and nothing else. */
interface Group {
  readonly request: BatchRequest;
  /** Of these requests among those of the batch. */
  readonly places: number[];
  /** Where it begins among the packed numbers. */
  readonly startsAt: number;
}

/** Where it is kept when a counter was forgotten: on the node that has the counter. */
export type ResetKeyOf = (key: CounterKey) => string;

const stepOf = Object.fromEntries(algorithmNames.map((name, at) => [name, at + 1])) as Record<
  Limit['algorithm'],
  number
>; // of every name

/** What the script calls an operation; operations that only count differ by their hits. */
const kinds = { spend: 0, give_back: 0, peek: 1, charge: 2, refund: 3, forget: 4 } as const;
/** Added to an operation's mode where it is counted though its request is refused. */
const ALONE = 16;
/** In place of how a request spends: its only operation stands for as many requests as follow. */
const REPEATED = spends.length;

/**
 * Packs requests for one script call; a key that appears again is sent once, so that each operation on it sees those
 * before, and so is a limit. Requests that spend the same hits on the same counter, and nothing else, are packed as one
 * with a count. They keep their order on that counter: a request in between that touches it ends the group.
 *
 * @param nowMs  this process's clock: where calendar windows are searched
 */
export function encodeBatch(
  requests: readonly BatchRequest[],
  nowMs: number,
  resetKeyOf: ResetKeyOf = noReset,
  foreign?: ForeignCounters,
): Batch {
  const keys = new Map<string, number>();
  const limits: LimitTable = { places: new Map(), numbers: [], nowMs, foreign };
  const numbers: number[] = [];
  const groups: Group[] = [];
  const open: (Group | undefined)[] = []; // by the key's place
  let lastLimit: Limit | undefined;
  let lastLimitPlace = 0;
  const placeOfLimit = (operation: Operation): number => {
    const { limit } = operation;
    if (limit === lastLimit && !foreign) return lastLimitPlace; // most requests of a batch meet the same rule
    lastLimit = limit;
    lastLimitPlace = searchLimit(limits, operation);
    return lastLimitPlace;
  };
  const packOperation = (operation: Operation, spend: Spend, knownPlace: number | undefined): number => {
    const { key, limit } = operation;
    const kind = operation.kind === 'peek' && operation.hits === 0 ? 0 : kinds[operation.kind];
    const place = knownPlace ?? placeOf(keys, key);
    const alone = spend !== 'each' && standsAlone(operation) ? ALONE : 0;
    numbers.push(place, placeOfLimit(operation), signedHits(operation), (operation.blocks ? 1 : 0) + 2 * kind + alone);
    if (operation.kind === 'refund') numbers.push(placeOf(keys, resetKeyOf(key)), operation.chargedAtMs);
    if (operation.kind === 'forget') numbers.push(placeOf(keys, resetKeyOf(key)), longestMemoryMs(limit));
    return place;
  };
  for (const [at, request] of requests.entries()) {
    const { operations, spend } = request;
    const only = operations.length === 1 && spend === 'each' ? operations[0] : undefined;
    const known = only && placeOf(keys, only.key);
    const group = known && open[known];
    if (group && isRepeat(group.request, request)) {
      group.places.push(at);
      numbers[group.startsAt] = REPEATED;
      numbers[group.startsAt + 1] = group.places.length;
      continue;
    }
    const fresh: Group = { request, places: [at], startsAt: numbers.length };
    groups.push(fresh);
    numbers.push(spends.indexOf(spend), operations.length);
    for (const operation of operations) {
      const place = packOperation(operation, spend, known);
      open[place] = only && isRepeatable(only) && !foreign?.has(only) ? fresh : undefined;
    }
  }
  const packed = pack([limits.places.size, ...limits.numbers, ...numbers]);
  return { keys: [...keys.keys()], packed, groups, nowMs, foreign };
}

/** The limits of a batch. */
interface LimitTable {
  /** Their places, from 1 on; of foreign ones by what they are packed as. */
  readonly places: Map<Limit | string, number>;
  readonly numbers: number[];
  readonly nowMs: number;
  readonly foreign: ForeignCounters | undefined;
}

/** The place of the operation's limit in the table, where it is added unless it is there. */
function searchLimit({ places, numbers, nowMs, foreign }: LimitTable, operation: Operation): number {
  const { limit } = operation;
  const packed = foreign?.has(operation) ? foreign.pack(operation) : undefined;
  const name = packed?.join(' ') ?? limit;
  const known = places.get(name);
  if (known !== undefined) return known;
  if (packed) numbers.push(...packed);
  else packLimit(numbers, limit, nowMs);
  places.set(name, places.size + 1);
  return places.size;
}

/**
 * Only of a spend, and where this process finds the windows that the script finds, whatever the script's clock says.
 */
const isRepeatable = ({ kind, limit }: Operation): boolean =>
  kind === 'spend' && (algorithmFor(limit).canReplay?.(limit) ?? true);

/** Whether the only operations of two requests are the same. */
function isRepeat(first: BatchRequest, second: BatchRequest): boolean {
  const [one] = first.operations;
  const [other] = second.operations;
  if (one === undefined || other === undefined || first.receipts !== second.receipts) return false;
  return one.kind === other.kind && one.limit === other.limit && one.hits === other.hits;
}

const noReset: ResetKeyOf = (key) => `reset|${key}`;

function placeOf(places: Map<string, number>, key: string): number {
  const known = places.get(key);
  if (known !== undefined) return known;
  places.set(key, places.size + 1);
  return places.size;
}

function packLimit(into: number[], limit: Limit, nowMs: number): void {
  const args = algorithmFor(limit).scriptArgs(limit, nowMs);
  into.push(stepOf[limit.algorithm], args.length, ...args);
}

function pack(numbers: readonly number[]): Buffer {
  const packed = Buffer.allocUnsafe(numbers.length * BYTES);
  const view = viewOf(packed);
  // the array has no holes
  for (let at = 0; at < numbers.length; at++) view.setFloat64(at * BYTES, numbers[at] as number, true);
  return packed;
}

/** V8 compiles its methods to single instructions, unlike those of `Buffer`. */
const viewOf = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/**
 * Reads the script's reply: for each request one reply an operation, in the order of the requests.
 *
 * @throws RangeError  when the reply is shorter than the operations ask for: it is not this script's
 */
export function decodeBatch(reply: Buffer, { groups, nowMs: ownNowMs, foreign }: Batch): readonly Replies[] {
  const view = viewOf(reply);
  let at = 0;
  const next = (): number => {
    const number = view.getFloat64(at, true);
    at += BYTES;
    return number;
  };
  const nextNumbers = (): readonly number[] => {
    const numbers: number[] = [];
    for (let left = next(); left > 0; left--) numbers.push(next());
    return numbers;
  };
  const nowMs = next();
  const decode = (outcome: number, operation: Operation, index: number, { operations, spend }: BatchRequest): Reply => {
    const { limit } = operation;
    const report = nextNumbers();
    const reason = foreign?.unusable(outcome);
    if (reason) return { code: 'UNAVAILABLE', reason };
    const accepted = (outcome & ACCEPTED) !== 0;
    const charged = (outcome & CHARGED) !== 0;
    // as the script does
    const hits = charged || spend === 'each' ? signedHits(operation) : (askedTogether(operations)[index] ?? 0);
    const how = operation.kind === 'charge' ? 'regardless' : charged;
    const decided = { hits: isTakenBack(operation) ? 0 : hits, accepted, charged: how } as const;
    if (foreign?.has(operation)) return foreign.describe(operation, report, ownNowMs, decided);
    return algorithmFor(limit).describe(limit, report, nowMs, decided);
  };
  const decodeRepeated = ({ request, places }: Group, only: Operation): readonly Replies[] => {
    const outcome = next();
    if (outcome === STATE_BEFORE) return replay(only, nextNumbers(), places.length, nowMs);
    return places.map((_, index) => [decode(index === 0 ? outcome : next(), only, 0, request)]);
  };
  const withTime = (one: Reply): Reply => (one.code === 'UNAVAILABLE' ? one : { ...one, chargedAtMs: nowMs });
  const answers: Replies[] = [];
  for (const group of groups) {
    const { operations, receipts } = group.request;
    const [only] = operations;
    if (only && operations.length === 1 && group.places.length === 1 && !receipts) {
      answers[group.places[0] ?? 0] = [decode(next(), only, 0, group.request)]; // nearly all are such
      continue;
    }
    const decoded =
      group.places.length > 1 && only
        ? decodeRepeated(group, only)
        : [operations.map((operation, index) => decode(next(), operation, index, group.request))];
    for (let index = 0; index < group.places.length; index++) {
      const replies = decoded[index] ?? [];
      answers[group.places[index] ?? 0] = receipts ? replies.map(withTime) : replies; // its place is among them
    }
  }
  return answers;
}

/** Takes the steps that the script has taken from the same state at the same time, for what is said of each. */
function replay({ limit, hits }: Operation, before: State, count: number, nowMs: number): readonly Replies[] {
  const { step, describe } = algorithmFor(limit);
  let state = before.length > 0 ? before : undefined;
  return Array.from({ length: count }, () => {
    const next = step(limit, state, nowMs, hits, true);
    state = next.state;
    return [describe(limit, next.report ?? state, nowMs, { hits, accepted: next.accepted, charged: true })];
  });
}

const isTakenBack = ({ kind }: Operation): boolean => kind === 'refund' || kind === 'forget';
