import { createReadStream } from 'node:fs';
import type { Call, Outcome } from './call.ts';

/** Calls of many counters, as JSON lines: a head, then one line for each call, in any order. */
export interface Head {
  /** The version of the format. */
  readonly history: 1;
  /** Wall clock time of the instant 0, in ms since 1970. */
  readonly epoch_ms: number;
}

/** One call. Times are ms of the client's monotonic clock since the beginning. */
export interface Line {
  /** The name of a declared limit. */
  readonly limit: string;
  readonly key: string;
  readonly start: number;
  readonly end: number;
  readonly hits: number;
  readonly outcome: Outcome;
  readonly remaining?: number | undefined;
  readonly reset_ms?: number | undefined;
  readonly holder?: string | undefined;
}

/** The calls of one counter, in the order in which they began. */
export interface Counter {
  readonly limit: string;
  readonly key: string;
  readonly calls: readonly Call[];
}

const outcomes: readonly Outcome[] = ['passed', 'refused', 'unknown'];
const FIRST_CAPACITY = 1 << 16;

/** A history in memory: some 50 bytes for each call, so that ten million fit. */
export class History {
  readonly epochMs: number;
  /** Ids of counters, by limit and key. */
  readonly #ids = new Map<string, number>();
  readonly #counters: { readonly limit: string; readonly key: string; size: number }[] = [];
  readonly #holders = new Map<number, string>();
  /** Start, end, hits, remaining and reset of each call. */
  #numbers = new Float64Array(FIRST_CAPACITY * NUMBERS);
  /** Counter and outcome of each call. */
  #kinds = new Uint32Array(FIRST_CAPACITY * 2);
  #size = 0;

  constructor(epochMs: number) {
    this.epochMs = epochMs;
  }

  get size(): number {
    return this.#size;
  }

  add({ limit, key, start, end, hits, outcome, remaining, reset_ms: resetMs, holder }: Line): void {
    if (this.#size * 2 === this.#kinds.length) this.#grow();
    const at = this.#size++;
    this.#numbers.set([start, end, hits, remaining ?? Number.NaN, resetMs ?? Number.NaN], at * NUMBERS);
    const id = this.#idOf(limit, key);
    const counter = this.#counters[id];
    if (counter) counter.size += 1;
    this.#kinds.set([id, outcomes.indexOf(outcome)], at * 2);
    if (holder) this.#holders.set(at, holder);
  }

  /** All calls, counter by counter. */
  *counters(): Generator<Counter> {
    const order = this.#byCounter();
    let from = 0;
    for (const { limit, key, size } of this.#counters) {
      const calls = Array.from(order.subarray(from, from + size), (at) => this.#call(at));
      from += size;
      yield { limit, key, calls: calls.sort((a, b) => a.start - b.start) };
    }
  }

  /** The numbers of all calls, sorted by their counter. */
  #byCounter(): Uint32Array {
    const next = new Uint32Array(this.#counters.length);
    this.#counters.forEach(({ size }, id) => {
      if (id + 1 < next.length) next[id + 1] = (next[id] ?? 0) + size;
    });
    const order = new Uint32Array(this.#size);
    for (let at = 0; at < this.#size; at++) {
      const id = this.#kinds[at * 2] ?? 0;
      order[next[id] ?? 0] = at;
      next[id] = (next[id] ?? 0) + 1;
    }
    return order;
  }

  #call(at: number): Call {
    const [start = 0, end = 0, hits = 0, remaining = 0, resetMs = 0] = this.#numbers.subarray(
      at * NUMBERS,
      (at + 1) * NUMBERS,
    );
    const outcome = outcomes[this.#kinds[at * 2 + 1] ?? 0] ?? 'unknown';
    return { line: at + 1, start, end, hits, outcome, remaining, resetMs, holder: this.#holders.get(at) ?? '' };
  }

  #idOf(limit: string, key: string): number {
    const name = `${limit}\n${key}`;
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    this.#ids.set(name, this.#counters.length);
    return this.#counters.push({ limit, key, size: 0 }) - 1;
  }

  #grow(): void {
    const [numbers, kinds] = [this.#numbers, this.#kinds];
    this.#numbers = new Float64Array(numbers.length * 2);
    this.#numbers.set(numbers);
    this.#kinds = new Uint32Array(kinds.length * 2);
    this.#kinds.set(kinds);
  }
}

const NUMBERS = 5;

/**
 * Reads a history.
 *
 * @throws Error  names the line, what was expected, and what came
 */
export async function readHistory(path: string): Promise<History> {
  let history: History | undefined;
  let number = 0;
  for await (const texts of linesOf(path)) {
    for (const text of texts) {
      number += 1;
      if (history) history.add(parseCall(text, `${path}:${number}`));
      else history = new History(parseHead(text, `${path}:1`));
    }
  }
  if (!history) throw new Error(`${path}: expected a history, got an empty file`);
  return history;
}

/** The lines of a file, many at a time: node:readline takes longer for each than the judge does. */
async function* linesOf(path: string): AsyncGenerator<readonly string[]> {
  let rest = '';
  for await (const chunk of createReadStream(path, { encoding: 'utf8', highWaterMark: 1 << 20 })) {
    const lines = `${rest}${chunk}`.split('\n');
    rest = lines.pop() ?? '';
    yield lines;
  }
  if (rest !== '') yield [rest];
}

function parseHead(text: string, where: string): number {
  const { history, epoch_ms: epochMs } = parse(text, where) as Partial<Head>;
  if (history === 1 && typeof epochMs === 'number') return epochMs;
  throw new Error(`${where}: expected {"history":1,"epoch_ms":NUMBER}, got ${text.slice(0, 100)}`);
}

function parseCall(text: string, where: string): Line {
  const line = parse(text, where) as Line; // checked below
  const wrong = requirements.find(([, isMet]) => !isMet(line));
  if (wrong === undefined) return line;
  throw new Error(`${where}: expected ${wrong[0]}, got ${text.slice(0, 200)}`);
}

const requirements: readonly (readonly [expected: string, isMet: (line: Line) => boolean])[] = [
  ['a limit and a key', ({ limit, key }) => typeof limit === 'string' && typeof key === 'string'],
  ['a start from 0 and an end that is not before it', ({ start, end }) => start >= 0 && end >= start],
  ['a whole number of hits', ({ hits }) => Number.isSafeInteger(hits)],
  [`an outcome of ${outcomes.join(', ')}`, ({ outcome }) => outcomes.includes(outcome)],
];

function parse(text: string, where: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The message below has the text.
  }
  throw new Error(`${where}: expected a JSON object, got '${text.slice(0, 100)}'`);
}
