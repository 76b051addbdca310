import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import type { ReservationReport } from '../../../src/engine/holds/reports.ts';
import type { ReservationLimit } from '../../../src/parts/reservations/reservation.ts';
import { type Common, DataWorld, EVERYTHING, type Message, OWN_SLOTS } from '../data-world.ts';
import type { Hasher } from '../hasher.ts';
import { type Protocol, type Step, Violation } from '../world.ts';

const TTL_MS = 1_000;
const WINDOW_MS = 60_000;
const RESERVED = 2;
const numbers = { requestsPerUnit: 3, soft: 0, windowMs: WINDOW_MS } as const;
const limit: ReservationLimit = {
  ...numbers,
  algorithm: 'reservation',
  counter: 'reservation',
  inner: { ...numbers, algorithm: 'fixed_window', counter: 'fixed_window', alignment: 'epoch' },
  ttlMs: TTL_MS,
  onOverrun: 'debt',
  onLapse: 'free',
};
const row = algorithmFor(limit);

interface Body {
  readonly kind: 'reserve' | 'commit' | 'granted' | 'refused' | 'charged';
  readonly holder: number;
  readonly hits: number;
  /** When the caller sent the call. */
  readonly askedMs: number;
}

const kinds: readonly Body['kind'][] = ['reserve', 'commit', 'granted', 'refused', 'charged'];
const phases = ['idle', 'asking', 'working', 'committing', 'done'] as const;

interface Caller {
  holder: number;
  requests: number;
  calls: number;
  phase: (typeof phases)[number];
  hits: number;
  untilMs: number;
}

/** What the store has been told of a request: the hits that it committed. */
interface Settled {
  readonly holder: number;
  readonly hits: number;
  readonly isLate: boolean;
  readonly isKnown: boolean;
}

interface ReservationState extends Common<Body> {
  readonly callers: Caller[];
  store: State;
  settled: readonly Settled[];
  ticks: number;
}

/** Callers that reserve hits, use some of them, and commit what they used. */
class ReservationsWorld extends DataWorld<Body, ReservationState> {
  constructor(parties: readonly string[], requests: number) {
    const callers = parties
      .slice(1)
      .map((_, at) => ({ holder: 10 * at + 11, requests, calls: 0, phase: 'idle' as const, hits: 0, untilMs: 0 }));
    super(parties, { nowMs: WINDOW_MS, messages: [], faults: 2, callers, store: [], settled: [], ticks: 3 });
  }

  protected ownSteps(): Step[] {
    const { callers, nowMs } = this.state;
    const steps: Step[] = [];
    for (const [at, { phase, requests, calls, untilMs }] of callers.entries()) {
      const from = this.parties[at + 1] ?? '';
      const add = (slot: number, text: string, run: () => void): void => {
        steps.push({ line: { from, text }, touches: 2 << at, slot: (at + 1) * OWN_SLOTS + slot, run });
      };
      if (phase === 'idle' && requests > 0) add(0, 'wants to work', () => this.#reserve(at));
      if (phase === 'working') {
        add(1, 'has used 1 hit', () => this.#commit(at, 1));
        add(2, 'has used 2 hits', () => this.#commit(at, 2));
      }
      if (phase === 'committing' && calls > 0 && nowMs < untilMs)
        add(1, 'commits again', () => this.#commit(at, undefined));
    }
    const pass = (): void => {
      this.state.ticks--;
      this.state.nowMs += TTL_MS / 2;
      const sinceMs = this.state.nowMs - TTL_MS;
      this.state.messages = this.state.messages.filter(({ body }) => body.kind !== 'commit' || body.askedMs > sinceMs); // connections end
    };
    if (this.state.ticks > 0)
      steps.push({ line: { from: 'time', text: `${TTL_MS / 2} ms pass` }, touches: EVERYTHING, run: pass });
    return steps;
  }

  #reserve(at: number): void {
    const caller = this.#caller(at);
    caller.phase = 'asking';
    caller.requests--;
    const holder = ++caller.holder;
    this.send(at + 1, 0, `reserve ${RESERVED} for ${holder}`, {
      kind: 'reserve',
      holder,
      hits: RESERVED,
      askedMs: this.state.nowMs,
    });
  }

  #caller(at: number): Caller {
    return this.state.callers[at] as Caller; // in range
  }

  /** A reservation that arrived again after its commit would be a new one with the same id. */
  protected override canArriveTwice({ kind }: Body): boolean {
    return kind === 'commit';
  }

  /** @param used  undefined: repeats the commit */
  #commit(at: number, used: number | undefined): void {
    const caller = this.#caller(at);
    if (used === undefined) caller.calls--;
    else {
      caller.phase = 'committing';
      caller.calls = 1;
      caller.hits = used;
      caller.untilMs = this.state.nowMs + TTL_MS;
    }
    const { hits, holder, untilMs } = caller;
    this.send(at + 1, 0, `commit ${hits} of ${holder}`, { kind: 'commit', holder, hits, askedMs: untilMs - TTL_MS });
  }

  protected receive({ from, to, body }: Message<Body>): void {
    if (to === 0) return this.#step(from, body);
    const caller = this.#caller(to - 1);
    if (caller.holder !== body.holder) return;
    if (caller.phase === 'asking' && body.kind === 'granted') {
      caller.phase = 'working';
      caller.untilMs = body.askedMs + TTL_MS;
    } else if (
      (caller.phase === 'asking' && body.kind === 'refused') ||
      (caller.phase === 'committing' && body.kind === 'charged')
    ) {
      caller.phase = 'idle';
      caller.untilMs = 0;
      caller.calls = 0;
    }
  }

  #step(from: number, { kind, holder, hits, askedMs }: Body): void {
    const { nowMs, settled } = this.state;
    const commits = kind === 'commit';
    const claim = { holder, commits };
    const before = this.#read();
    const step = row.step(limit, this.state.store, nowMs, hits, true, claim);
    const outcome = { hits, accepted: step.accepted, charged: true } as const;
    const { reservation } = row.describe(limit, step.report ?? step.state, nowMs, outcome, claim);
    this.state.store = step.ttlMs > 0 ? step.state : [];
    if (!reservation) throw new Violation('a step of a reservation has no report');
    if (commits) {
      const known = settled.find((one) => one.holder === holder);
      if (known && reservation.charged > 0) throw new Violation(`the hits of ${holder} are charged twice`);
      if (!known && reservation.charged !== hits)
        throw new Violation(`${hits} hits were used by ${holder}, and ${reservation.charged} charged`);
      const one = { holder, hits, isLate: reservation.event === 'late', isKnown: reservation.event !== 'unknown' };
      if (!known) this.state.settled = [...settled, one].sort((a, b) => a.holder - b.holder);
      return this.send(0, from, `${reservation.event} ${holder}`, { kind: 'charged', holder, hits, askedMs });
    }
    if (!step.accepted && reservation.held !== before.held) throw new Violation('a refused request holds hits');
    const answer = step.accepted ? 'granted' : 'refused';
    this.send(0, from, `${answer} ${holder}`, { kind: answer, holder, hits, askedMs });
  }

  #read(): Pick<ReservationReport, 'held' | 'open'> & { readonly charged: number } {
    const { store, nowMs } = this.state;
    const { accepted, report, state } = row.step(limit, store, nowMs, 0, false, { holder: 9 });
    const outcome = { hits: 0, accepted, charged: false } as const;
    const { reservation, hitsBefore } = row.describe(limit, report ?? state, nowMs, outcome, { holder: 9 });
    const { held = 0, open = 0 } = reservation ?? {};
    return { held, open, charged: hitsBefore - held };
  }

  protected copy({ nowMs, messages, faults, callers, store, settled, ticks }: ReservationState): ReservationState {
    return { nowMs, messages: messages.slice(), faults, callers: callers.map(copyCaller), store, settled, ticks };
  }

  protected describeState(hash: Hasher, { callers, store, settled, ticks }: ReservationState): void {
    for (const { holder, requests, calls, phase, hits, untilMs } of callers) {
      hash.word(((holder * 4 + requests) * 4 + calls) * 4 + hits);
      hash.word(phases.indexOf(phase));
      hash.number(untilMs);
    }
    hash.numbers(store);
    hash.word(ticks);
    hash.word(settled.length);
    for (const { holder, hits, isLate, isKnown } of settled)
      hash.word(holder * 16 + hits * 4 + (isLate ? 2 : 0) + (isKnown ? 1 : 0));
  }

  protected describeBody(hash: Hasher, { kind, holder, hits, askedMs }: Body): void {
    hash.word(holder * 64 + hits * 16 + kinds.indexOf(kind));
    hash.number(askedMs);
  }

  violation(): string | undefined {
    const { settled, callers, nowMs } = this.state;
    const { held, charged } = this.#read();
    const sum = settled.reduce((hits, one) => hits + one.hits, 0);
    if (charged !== sum) return `${sum} hits were committed, and ${charged} are counted`;
    const timely = settled.reduce((hits, one) => hits + (one.isLate || !one.isKnown ? 0 : one.hits), 0);
    const isKept = sum === timely; // late commits are charged beyond the limit
    if (isKept && held + charged > limit.requestsPerUnit)
      return `${held} hits are held beside ${charged} charged, of ${limit.requestsPerUnit}`;
    const working = callers.filter(({ phase, untilMs }) => phase === 'working' && untilMs > nowMs).length;
    if (held < working * RESERVED) return `${working} requests hold ${RESERVED} hits each, and the store holds ${held}`;
    return undefined;
  }

  end(): string | undefined {
    this.state.faults = 0;
    this.deliverAll();
    this.state.nowMs += TTL_MS;
    const { held, open } = this.#read();
    return held + open === 0 ? undefined : `${held} hits are held after the ttl of all reservations`;
  }
}

const copyCaller = ({ holder, requests, calls, phase, hits, untilMs }: Caller): Caller => ({
  holder,
  requests,
  calls,
  phase,
  hits,
  untilMs,
});

export const reservations: Protocol = {
  name: 'reservations',
  code: 'parts/reservations/reservation.ts',
  parties: ['store', 'A', 'B'],
  invariants: [
    'never more on hold and charged than the limit',
    'hits used are charged, and once',
    'a granted reservation stays for its ttl',
    'a refused request holds nothing',
    'nothing is held after the ttl',
  ],
  depth: 10,
  longDepth: 18,
  create: () => new ReservationsWorld(reservations.parties, 2),
};
