import type { FixedWindowLimit } from '../../../src/engine/algorithms/fixed-window.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import type { Pipeline } from '../../../src/parts/redis/commands.ts';
import { WindowCounts } from '../../../src/parts/redis/window-counts.ts';
import { EVERYTHING } from '../data-world.ts';
import type { Hasher } from '../hasher.ts';
import { Runtime } from '../runtime.ts';
import type { Line, Protocol, Step, World } from '../world.ts';

const WINDOW_MS = 300;
const START_MS = 10 * WINDOW_MS + 90;
/** Shorter than what window-counts.ts takes for the longest time between a call and its last command. */
const TICK_MS = 60;
const MAX_CALL_MS = 99;
/** How far behind each process's estimate of Redis's clock is. */
const LATE_MS = [0, 30];
/** By then every window has ended, and counters in doubt have been checked. */
const END_MS = 5_000;
const KEY = 'key' as CounterKey;

/** A call of one process to Redis, on its only connection. */
interface Call {
  readonly commands: (readonly string[])[];
  readonly replies: unknown[];
  readonly sentMs: number;
  readonly resolve: (replies: readonly unknown[]) => void;
  readonly reject: (error: Error) => void;
}

interface Process {
  readonly name: string;
  readonly place: number;
  readonly counts: WindowCounts;
  calls: Call[];
  /** Spends that it may still make. */
  left: number;
  isAlive: boolean;
}

/** Processes that count one fixed window in Redis by plain commands, which interleave. */
class WindowsWorld implements World {
  readonly #runtime = new Runtime(START_MS);
  readonly #limit: Limit;
  readonly #processes: readonly Process[];
  /** The counter in Redis. */
  #counter: { count: number; endMs: number | undefined } | undefined;
  /** The counts before each spend that was answered, by the start of its window. */
  readonly #befores = new Map<number, number[]>();
  #ticks = 4;
  #faults = 2;
  /** Redis lost the counter, so that it counts anew. */
  #isLost = false;
  #failed: string | undefined;

  constructor(names: readonly string[], limit: Limit) {
    this.#limit = limit;
    this.#processes = names.map((name, place) => {
      const process: Process = {
        name,
        place,
        counts: new WindowCounts(
          (commands) => this.#send(process, commands),
          () => this.#clock(process),
        ),
        calls: [],
        left: 2,
        isAlive: true,
      };
      return process;
    });
    const [first] = this.#processes;
    if (!first) return;
    this.#spend(first); // and so knows the counter
    this.#finish(first);
    first.left = 2;
  }

  #clock({ place }: Process): number {
    return this.#runtime.nowMs - (LATE_MS[place] ?? 0);
  }

  #send(process: Process, commands: Pipeline): Promise<readonly unknown[]> {
    return new Promise((resolve, reject) => {
      process.calls.push({ commands: read(commands), replies: [], sentMs: this.#runtime.nowMs, resolve, reject });
    });
  }

  steps(): readonly Step[] {
    const steps = this.#processes.flatMap((process) => (process.isAlive ? this.#stepsOf(process) : []));
    const add = (line: Line, run: () => void): void => void steps.push({ line, touches: EVERYTHING, run });
    if (this.#ticks > 0 && this.#canWait()) add({ from: 'redis', text: `${TICK_MS} ms pass` }, () => this.#tick());
    const isKilled = this.#processes.some(({ isAlive }) => !isAlive);
    if (this.#faults > 0 && this.#counter && !isKilled)
      add({ from: 'redis', text: 'loses the counter' }, () => this.#lose());
    return steps;
  }

  #stepsOf(process: Process): Step[] {
    const { name, place, left, calls } = process;
    const steps: Step[] = [];
    const own = 1 << place;
    const add = (line: Line, touches: number, slot: number | undefined, act: () => void): void => {
      const run = (): void => {
        act();
        this.#runtime.drain();
      };
      steps.push({ line, touches, slot: slot === undefined ? undefined : place * 3 + slot, run });
    };
    if (left > 0 && this.#isPlain(process))
      add({ from: name, text: 'spends a hit' }, own, 0, () => this.#spend(process));
    const [call] = calls;
    if (!call) return steps;
    const [next] = call.commands;
    if (next) add({ from: name, to: 'redis', text: next[0] ?? '' }, own | REDIS, 1, () => this.#runNext(call));
    else
      add({ from: 'redis', to: name, text: call.replies.join(', ') }, own, 2, () => {
        calls.shift();
        call.resolve(call.replies);
      });
    if (this.#faults === 0) return steps;
    add({ from: name, text: 'its connection breaks' }, EVERYTHING, undefined, () => this.#break(process));
    // a counter that is lost, and counted anew by a process that is killed then, is found by the next process that counts it
    if (!this.#isLost) add({ from: name, text: 'is killed' }, EVERYTHING, undefined, () => this.#kill(process));
    return steps;
  }

  #isPlain(process: Process): boolean {
    const spend = { kind: 'spend', key: KEY, limit: this.#limit, hits: 1, blocks: false } as const;
    return process.counts.isPlain(spend, this.#clock(process));
  }

  /** A call that takes longer is given up before. */
  #canWait(): boolean {
    const nowMs = this.#runtime.nowMs + TICK_MS;
    return this.#processes.every(({ calls }) => calls.every(({ sentMs }) => nowMs - sentMs <= MAX_CALL_MS));
  }

  #spend(process: Process): void {
    process.left--;
    const count = process.counts.count([{ key: KEY, limit: this.#limit, hits: 1 }], 0);
    count.then(
      ({ befores: [before] }) => {
        if (Array.isArray(before)) this.#answered(before);
        else this.#failed ??= `a spend is refused: ${String(before)}`;
      },
      () => {}, // answered by the failure policy of its limit
    );
  }

  #answered([start = 0, before = 0]: readonly number[]): void {
    const befores = this.#befores.get(start) ?? [];
    this.#befores.set(start, [...befores, before].sort());
    if (befores.includes(before) && !this.#isLost)
      this.#failed ??= `two hits of one window are both counted as number ${before + 1}`;
  }

  #runNext(call: Call): void {
    const [name = '', , ...args] = call.commands.shift() ?? [];
    call.replies.push(this.#reply(name, args));
  }

  #reply(name: string, args: readonly string[]): unknown {
    const { nowMs } = this.#runtime;
    if (this.#counter?.endMs !== undefined && this.#counter.endMs <= nowMs) this.#counter = undefined;
    switch (name) {
      case 'TIME':
        return [Math.floor(nowMs / 1_000), (nowMs % 1_000) * 1_000];
      case 'SET': {
        const [, unit, time, condition] = args;
        if (this.#counter && condition === 'NX') return null;
        this.#counter = { count: 0, endMs: unit === 'PXAT' ? Number(time) : nowMs + Number(time) };
        return 'OK';
      }
      case 'INCRBY':
        this.#counter ??= { count: 0, endMs: undefined };
        this.#counter.count += Number(args[0]);
        return this.#counter.count;
      case 'PTTL':
        return this.#counter ? (this.#counter.endMs ?? nowMs - 1) - nowMs : -2;
      case 'PEXPIREAT':
        if (this.#counter) this.#counter.endMs = Number(args[0]);
        return this.#counter ? 1 : 0;
      default:
        throw new TypeError(`this Redis has no ${name}`);
    }
  }

  #tick(): void {
    this.#ticks--;
    this.#runtime.pass(TICK_MS);
  }

  #lose(): void {
    this.#faults--;
    this.#isLost = true;
    this.#counter = undefined;
  }

  /** The commands that have not run are gone, and no reply comes. */
  #break(process: Process): void {
    this.#faults--;
    const broken = process.calls;
    process.calls = [];
    for (const { reject } of broken) reject(new Error('Connection is closed.'));
  }

  #kill(process: Process): void {
    this.#faults--;
    process.isAlive = false;
    process.calls = [];
    process.counts.close();
  }

  describe(hash: Hasher): void {
    const { nowMs, due } = this.#runtime;
    hash.numbers([nowMs, this.#ticks, this.#faults, this.#isLost ? 1 : 0, ...due]);
    hash.value([this.#counter?.count, this.#counter?.endMs, [...this.#befores]]);
    for (const { calls, left, isAlive, counts } of this.#processes) {
      hash.value([left, isAlive, calls.map(({ commands, replies, sentMs }) => [commands, replies, sentMs])]);
      hash.value(inside(counts));
    }
  }

  violation(): string | undefined {
    return this.#failed;
  }

  isQuiet(): boolean {
    return this.#processes.every(({ calls }) => calls.length === 0);
  }

  end(): string | undefined {
    for (const process of this.#processes) this.#finish(process);
    this.#runtime.pass(END_MS);
    for (const process of this.#processes) this.#finish(process); // what checked counters in doubt
    this.#runtime.pass(END_MS);
    this.#reply('PTTL', []);
    return this.#failed ?? (this.#counter && 'a counter remains after its window');
  }

  #finish({ calls }: Process): void {
    for (let call = calls[0]; call; call = calls[0]) {
      while (call.commands.length > 0) this.#runNext(call);
      calls.shift();
      call.resolve(call.replies);
      this.#runtime.drain();
    }
  }
}

/** The bit of Redis in `touches`; each process has that of its place. */
const REDIS = 1 << 8;

/** The commands of a pipeline, each a name and its arguments. */
function read(commands: Pipeline): (readonly string[])[] {
  const { _octets: text } = commands as unknown as { readonly _octets: string };
  const lines = text.split('\r\n').slice(0, -1);
  const read: string[][] = [];
  for (let at = 0; at < lines.length; ) {
    const words = Number(lines[at]?.slice(1));
    read.push(lines.slice(at + 1, at + 1 + 2 * words).filter((_, place) => place % 2 === 1));
    at += 1 + 2 * words;
  }
  return read;
}

/** What a process knows of the counter. */
function inside(counts: WindowCounts): unknown {
  const { _ends, _doubtful } = counts as unknown as Record<'_ends' | '_doubtful', ReadonlyMap<unknown, unknown>>;
  return [[..._ends.values()], _doubtful.size];
}

const limitOf = (alignment: FixedWindowLimit['alignment']): Limit => ({
  algorithm: 'fixed_window',
  counter: 'window',
  requestsPerUnit: 2,
  soft: 0,
  windowMs: WINDOW_MS,
  alignment,
});

const protocolOf = (name: string, alignment: FixedWindowLimit['alignment']): Protocol => ({
  name,
  code: 'parts/redis/window-counts.ts',
  parties: ['redis', 'A', 'B'],
  invariants: [
    'a counter expires with its window, whatever dies between two commands',
    'each hit of a window has a number of its own, unless Redis loses the counter',
  ],
  depth: 12,
  longDepth: 16,
  create: () => new WindowsWorld(['A', 'B'], limitOf(alignment)),
});

export const windows = protocolOf('windows', 'epoch');
export const windowsOfFirstHit = protocolOf('windows, first hit', 'first_hit');
