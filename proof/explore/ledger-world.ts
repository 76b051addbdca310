import type { Clock } from '../../src/base/clock.ts';
import type { Eventual } from '../../src/base/later.ts';
import type { State } from '../../src/engine/algorithms/limit.ts';
import type {
  Backend,
  InvalidationListener,
  Invalidations,
  Operation,
  Replies,
  RunOptions,
  Settlement,
} from '../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMemoryBackend, type MemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import { createDebit, type Debit, type LedgerEntry } from '../../src/engine/ledger/debit.ts';
import { Ledger } from '../../src/engine/ledger/ledger.ts';
import { EVERYTHING, OWN_SLOTS } from './data-world.ts';
import { Hasher } from './hasher.ts';
import { Runtime } from './runtime.ts';
import type { Step, World } from './world.ts';

export const KEY = 'counter' as CounterKey;
type LedgerOptions = ConstructorParameters<typeof Ledger>[1];

/** A call to the store or its reply, on its way. */
interface Flight {
  readonly process: Process;
  /** The process has ended if it has begun again since. */
  readonly life: number;
  readonly call: number;
  readonly sentMs: number;
  readonly request: { readonly operations: readonly Operation[]; readonly how: RunOptions } | Settlement;
  /** Undefined: the call has not reached the store. */
  reply: Replies | boolean | undefined;
  readonly resolve: (reply: Replies | boolean) => void;
}

/** A process with a ledger. */
export interface Process {
  readonly place: number;
  readonly name: string;
  ledger: Ledger;
  life: number;
  /** Calls to the store, and of clients, that are not answered. */
  pending: number;
  calls: number;
  /** Hash of the events since nothing was pending: it determines what the code in between remembers. */
  history: readonly [number, number];
  timers: (() => void)[];
  isCut: boolean;
  /** The operations of calls to the store that are not answered. */
  readonly open: Set<readonly Operation[]>;
  /** Hits that the store may have counted without an answer. */
  unknown: number;
  listener: InvalidationListener | undefined;
}

export interface LedgerWorldOptions {
  readonly parties: readonly string[];
  readonly limit: Limit;
  readonly policy: Debit['policy'];
  readonly ledger: Partial<LedgerOptions>;
  readonly startMs: number;
  readonly faults: number;
  readonly ticks: number;
  /** How far time goes in a step: one of these. */
  readonly tickMs: readonly number[];
  /** Whether connections break and return. */
  readonly cuts: boolean;
  /** Whether processes are killed. */
  readonly crashes: boolean;
}

const TIMEOUT_MS = 500;
/** A connection that owes a reply for so long is closed: what is on its way does not arrive. */
const WAY_MS = 1_000;

/** The counters of the world that was built last; those of earlier ones are gone. */
let runtime: Runtime;
const nowMs: Clock = () => runtime.nowMs;
const backend = createMemoryBackend(nowMs, { maxCounters: 100 });

function reopenStore(current: Runtime): { readonly nowMs: Clock; readonly backend: MemoryBackend } {
  runtime = current;
  void backend.close();
  return { nowMs, backend };
}

/** Processes with ledgers, and a store that they reach over a network. */
export abstract class LedgerWorld implements World {
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly store: MemoryBackend;
  readonly processes: readonly Process[];
  protected readonly options: LedgerWorldOptions;
  protected flights: Flight[] = [];
  protected faults: number;
  protected ticks: number;
  protected crashes = 0;
  #failed: string | undefined;
  /** The last settlement of each process. */
  readonly #settled = new Map<string, number>();
  /** Operations without an answer. */
  readonly #unknown = new WeakSet<object>();
  readonly #hash = new Hasher();

  constructor(options: LedgerWorldOptions) {
    this.options = options;
    this.faults = options.faults;
    this.ticks = options.ticks;
    this.runtime = new Runtime(options.startMs);
    ({ nowMs: this.clock, backend: this.store } = reopenStore(this.runtime));
    this.processes = options.parties.slice(1).map((name, place) => {
      const rest = {
        life: 0,
        pending: 0,
        calls: 0,
        history: [0, 0] as const,
        timers: [],
        isCut: false,
        open: new Set(),
        unknown: 0,
        listener: undefined,
      };
      return { place, name, ...rest } as unknown as Process; // its ledger follows
    });
  }

  /** Takes steps before the exploration begins, by the party and the beginning of the text of each. */
  protected play(...steps: readonly (readonly [from: string, text: string])[]): void {
    for (const [from, text] of steps) {
      const step = this.steps().find(
        ({ line }) => line.from === from && line.text.startsWith(text) && line.fate === undefined,
      );
      if (!step) throw new TypeError(`there is no step of ${from}: ${text}`);
      step.run();
    }
  }

  /** Starts the processes; must be called once. */
  protected begin(): void {
    for (const process of this.processes) process.ledger = this.#open(process);
    this.runtime.drain();
  }

  /** The steps of clients of a process. */
  protected abstract clientSteps(process: Process): Omit<Step, 'touches'>[];
  protected abstract describeClients(hash: Hasher): void;
  /** A process has ended, with what it kept. */
  protected abstract crashed(process: Process): void;
  protected abstract check(): string | undefined;
  /** After the end of all calls. */
  protected abstract finalViolation(): string | undefined;

  #open(process: Process): Ledger {
    process.timers = [];
    return new Ledger(
      { main: this.#backend(process) },
      {
        ...{
          clock: this.clock,
          monotonicMs: this.clock,
          instance: `${process.name}${process.life}`,
          denyCacheBytes: 0,
        },
        every: (_, run) => {
          process.timers.push(run);
          return () => {};
        },
        ...this.options.ledger,
      },
    );
  }

  #backend(process: Process): Backend {
    const { life } = process;
    return {
      atomic: 'request',
      run: (operations, how) => this.#call(process, life, { operations, how }, how.timeoutMs) as Eventual<Replies>,
      settle: (settlement, timeoutMs) => this.#call(process, life, settlement, timeoutMs) as Promise<boolean>,
      shardOf: () => '',
      fork: () => {
        throw new TypeError('nothing is copied here');
      },
      invalidations: (listener) => this.invalidations(process, listener),
      health: () => (process.isCut ? { ready: false, reason: 'cut' } : { ready: true }),
      close: async () => {},
    };
  }

  /** Messages to other processes arrive at once. */
  protected invalidations(process: Process, listener: InvalidationListener): Invalidations {
    process.listener = listener;
    return {
      isLive: () => !process.isCut,
      publish: (what, key) => {
        for (const other of this.processes) if (other !== process) other.listener?.[what](key);
      },
    };
  }

  /** Calls the store; the reply is an unknown outcome when the time is over. */
  #call(process: Process, life: number, request: Flight['request'], timeoutMs: number): Promise<Replies | boolean> {
    const isSettlement = 'number' in request;
    if (process.life !== life) return new Promise(() => {});
    const fail = (isUnknown: boolean): Replies | boolean =>
      isSettlement
        ? false
        : request.operations.map(() => ({
            code: 'UNAVAILABLE' as const,
            reason: 'no reply',
            ...(isUnknown && { isUnknown }),
          }));
    if (process.isCut) return Promise.resolve(fail(false));
    return new Promise((resolve) => {
      let isOver = false;
      const settle = (reply: Replies | boolean): void => {
        if (isOver || process.life !== life) return;
        isOver = true;
        process.pending--;
        if (!isSettlement) process.open.delete(request.operations);
        resolve(reply);
      };
      process.pending++;
      if (!isSettlement) process.open.add(request.operations);
      const flight = {
        process,
        life,
        call: process.calls++,
        sentMs: this.runtime.nowMs,
        request,
        reply: undefined,
        resolve: settle,
      };
      this.flights.splice(this.#placeAfter(flight), 0, flight);
      setTimeout(() => {
        if (isOver || process.life !== life) return;
        if (!isSettlement) this.#forgetOutcome(process, request.operations);
        settle(fail(true));
      }, timeoutMs);
    });
  }

  #forgetOutcome(process: Process, operations: readonly Operation[]): void {
    for (const operation of operations) {
      this.#unknown.add(operation);
      if (operation.kind === 'spend') process.unknown += operation.hits;
    }
  }

  /** Messages of a process are in one order, wherever those of others are. */
  #placeAfter({ process, reply }: Flight): number {
    const rank = (flight: { process: Process; reply: unknown }): number =>
      2 * flight.process.place + (flight.reply === undefined ? 0 : 1);
    const own = rank({ process, reply });
    const at = this.flights.findIndex((one) => rank(one) > own);
    return at < 0 ? this.flights.length : at;
  }

  steps(): readonly Step[] {
    const steps: Step[] = [];
    const { parties, tickMs, cuts } = this.options;
    const run = ({ line, touches, slot }: Omit<Step, 'run'>, act: () => void, places: readonly number[]): void => {
      steps.push({ line, touches, slot, run: () => this.#run(`${line.text} ${line.fate ?? ''}`, act, places) });
    };
    for (const process of this.processes) {
      const { place, name } = process;
      for (const { line, slot, run: act } of this.clientSteps(process))
        run({ line, touches: 2 << place, slot: slot === undefined ? undefined : (place + 1) * OWN_SLOTS + slot }, act, [
          place,
        ]);
      if (process.timers.length > 0)
        run({ line: { from: name, text: 'its timers run' }, touches: 2 << place }, () => this.#tick(process), [place]);
      if (this.faults === 0) continue;
      if (this.options.crashes)
        run(
          { line: { from: name, text: 'is killed, and starts again' }, touches: EVERYTHING },
          () => this.#crash(process),
          [place],
        );
      if (cuts && !process.isCut)
        run({ line: { from: name, text: 'loses its connection' }, touches: EVERYTHING }, () => this.#cut(process), [
          place,
        ]);
    }
    for (const process of this.processes)
      if (process.isCut)
        run(
          { line: { from: process.name, text: 'is connected again' }, touches: EVERYTHING },
          () => Object.assign(process, { isCut: false }),
          [process.place],
        );
    for (const [at, flight] of this.flights.entries()) this.#flightSteps(at, flight, parties[0] ?? '', run);
    if (this.ticks > 0)
      for (const ms of tickMs)
        run({ line: { from: 'time', text: `${ms} ms pass` }, touches: EVERYTHING }, () => this.#pass(ms), [
          ...this.processes.keys(),
        ]);
    return steps;
  }

  #flightSteps(
    at: number,
    flight: Flight,
    store: string,
    run: (step: Omit<Step, 'run'>, act: () => void, places: readonly number[]) => void,
  ): void {
    const { process, request, reply } = flight;
    const text = describeFlight(request, reply);
    const line =
      reply === undefined ? { from: process.name, to: store, text } : { from: store, to: process.name, text };
    const touches = reply === undefined ? 1 : 2 << process.place;
    const same = this.flights.findIndex(
      (one) => one.process === process && (one.reply === undefined) === (reply === undefined),
    );
    const number =
      OWN_SLOTS * this.options.parties.length + 4 * process.place + (reply === undefined ? 0 : 2) + at - same;
    const slot = at - same < 2 && number < 31 ? number : undefined;
    const places = reply === undefined ? [] : [process.place];
    run({ line, touches, slot }, () => this.#arrive(at, false), places);
    if (this.faults === 0) return;
    run({ line: { ...line, fate: 'lost' }, touches: EVERYTHING }, () => this.#lose(at), []);
    const isRepeatable = reply === undefined && 'number' in request; // other calls are never sent twice
    if (isRepeatable)
      run(
        { line: { ...line, fate: 'arrives, and stays on its way' }, touches: EVERYTHING },
        () => this.#arrive(at, true),
        [],
      );
  }

  #run(event: string, act: () => void, places: readonly number[]): void {
    act();
    this.runtime.drain();
    for (const place of places) {
      const process = this.processes[place];
      if (!process) continue;
      if (process.pending === 0) {
        process.history = [0, 0];
        process.calls = 0;
        continue;
      }
      const hash = this.#hash.begin();
      hash.numbers([...process.history, this.runtime.nowMs]);
      hash.text(event);
      process.history = [hash.low, hash.high];
    }
  }

  #pass(ms: number): void {
    this.ticks--;
    this.runtime.pass(ms);
    const sinceMs = this.runtime.nowMs - WAY_MS;
    this.flights = this.flights.filter(({ sentMs }) => sentMs > sinceMs);
  }

  #tick(process: Process): void {
    for (const timer of process.timers) timer();
  }

  #crash(process: Process): void {
    this.faults--;
    this.crashes++;
    this.crashed(process);
    process.life++;
    for (const operations of process.open) this.#forgetOutcome(process, operations);
    process.open.clear();
    this.flights = this.flights.filter((one) => one.process !== process || one.reply === undefined);
    process.pending = 0;
    process.ledger = this.#open(process);
  }

  #cut(process: Process): void {
    this.faults--;
    process.isCut = true;
  }

  #arrive(at: number, stays: boolean): void {
    const flight = this.flights[at];
    if (!flight) return;
    if (stays) this.faults--;
    else this.flights.splice(at, 1);
    const { process, life, request, reply } = flight;
    if (reply !== undefined) return flight.resolve(reply);
    const answered = this.#serve(request);
    if (process.life !== life) return; // nobody waits for the reply
    const replied = { ...flight, reply: answered };
    this.flights.splice(this.#placeAfter(replied), 0, replied);
  }

  /** What the store does: a settlement is counted once, by its number. */
  #serve(request: Flight['request']): Replies | boolean {
    if (!('number' in request)) {
      const replies = this.store.run(request.operations, request.how);
      if ('then' in replies) throw new TypeError('counters in memory reply at once');
      return replies;
    }
    const { instance, number, operations } = request;
    if (number > (this.#settled.get(instance) ?? 0)) {
      this.#settled.set(instance, number);
      void this.store.settle({ instance, number, operations }, 0);
    }
    return true;
  }

  #lose(at: number): void {
    this.faults--;
    this.flights.splice(at, 1);
  }

  describe(hash: Hasher): void {
    hash.numbers([this.runtime.nowMs, this.faults, this.ticks, this.crashes]);
    hash.value(this.store.readState(KEY));
    hash.value(this.#settled);
    hash.value(this.runtime.due);
    for (const { ledger, history, isCut, unknown, calls, pending, life } of this.processes) {
      hash.numbers([...history, unknown, isCut ? 1 : 0, calls, pending, life]);
      const { leases, refusals, pendingCommits } = ledger;
      hash.value([leases, refusals, pendingCommits]);
      const { _debts: debts, _remembered: remembered } = ledger as unknown as {
        _debts: DebtsInside | undefined;
        _remembered: unknown;
      };
      hash.value([debts?._shards, debts?._lastNumber, debts?._local.readState?.(KEY), remembered]);
    }
    for (const { process, life, call, sentMs, request, reply } of this.flights) {
      hash.numbers([process.place, life, call, sentMs]);
      hash.value(request);
      hash.value(reply);
    }
    this.describeClients(hash);
  }

  violation(): string | undefined {
    return this.#failed ?? this.check();
  }

  /** Reports a violation at an answer. */
  protected fail(text: string): void {
    this.#failed ??= text;
  }

  protected get hadFaults(): boolean {
    return this.faults < this.options.faults || this.processes.some(({ unknown }) => unknown > 0);
  }

  isQuiet(): boolean {
    return this.flights.length === 0;
  }

  end(): string | undefined {
    for (const process of this.processes) process.isCut = false;
    for (let turn = 0; turn < 8; turn++) {
      while (this.flights.length > 0) this.#run('', () => this.#arrive(0, false), []);
      this.runtime.pass(turn === 0 ? WAY_MS : 0);
      for (const process of this.processes) this.#run('', () => this.#tick(process), []);
    }
    if (this.processes.some(({ pending }) => pending > 0)) return 'a call is never answered';
    return this.violation() ?? this.finalViolation();
  }

  protected debit(hits: number): Debit {
    return createDebit({ key: KEY }, this.options, hits, true);
  }

  /** Sends a request, and reports its answer. */
  protected request(
    process: Process,
    debit: Debit,
    how: Omit<RunOptions, 'timeoutMs'>,
    answered: (entry: LedgerEntry | undefined, isUnknown: boolean) => void,
  ): void {
    const { life, ledger } = process;
    process.pending++;
    void Promise.resolve(ledger.debit([debit], { ...how, timeoutMs: TIMEOUT_MS })).then(([entry]) => {
      if (process.life !== life) return;
      process.pending--;
      answered(entry?.code === 'UNAVAILABLE' ? undefined : entry, this.#unknown.has(debit));
    });
  }
}

interface DebtsInside {
  readonly _shards: unknown;
  readonly _lastNumber: number;
  readonly _local: { readState?(key: CounterKey): State | undefined };
}

function describeFlight(request: Flight['request'], reply: Flight['reply']): string {
  const name = 'number' in request ? `settlement ${request.number}` : '';
  const asked = request.operations.map(({ kind, hits }) => `${kind} ${hits}`).join(', ');
  if (reply === undefined) return name ? `${name}: ${asked}` : asked;
  if (typeof reply === 'boolean') return `${name}: ${reply ? 'counted' : 'not counted'}`;
  return reply
    .map((one) => (one.code === 'UNAVAILABLE' ? one.code : `${one.code}, ${one.limitRemaining} left`))
    .join(', ');
}
