import type { State } from '../../../src/engine/algorithms/limit.ts';
import { HOLD_SIZE, type InFlightLimit, ownSlots } from '../../../src/engine/holds/in-flight.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import { type Common, DataWorld, EVERYTHING, type Message, OWN_SLOTS } from '../data-world.ts';
import type { Hasher } from '../hasher.ts';
import { type Protocol, type Step, Violation } from '../world.ts';

const TTL_MS = 1_000;
const limit: InFlightLimit = {
  algorithm: 'in_flight',
  counter: 'in_flight',
  requestsPerUnit: 1,
  soft: 0,
  windowMs: TTL_MS,
};
const row = algorithmFor(limit);
const STORE = 0;

interface Body {
  readonly kind: 'acquire' | 'release' | 'granted' | 'refused';
  readonly holder: number;
  /** When the caller sent the acquire. */
  readonly askedMs: number;
}

interface Caller {
  /** The id of its current request, which is never used again. */
  holder: number;
  /** Requests that it may still make, and calls for the current one. */
  requests: number;
  calls: number;
  phase: 'idle' | 'asking' | 'holding' | 'leaving';
  /** Until when it may use its slot. */
  untilMs: number;
}

interface HoldsState extends Common<Body> {
  readonly callers: readonly Caller[];
  slots: State;
  clockMs: number;
  /** Steps of the clock, and steps backwards of the store's clock. */
  ticks: number;
  backs: number;
}

/** Callers that share slots, each with an id for each of its requests. */
class HoldsWorld extends DataWorld<Body, HoldsState> {
  constructor(parties: readonly string[], requests: number) {
    const callers = parties
      .slice(1)
      .map((_, at) => ({ holder: 10 * at + 11, requests, calls: 2, phase: 'idle' as const, untilMs: 0 }));
    super(parties, { nowMs: 10_000, messages: [], faults: 2, callers, slots: [], clockMs: 0, ticks: 3, backs: 1 });
  }

  protected ownSteps(): Step[] {
    const { callers, ticks, backs, nowMs } = this.state;
    const steps: Step[] = [];
    for (const [at, { phase, requests, calls, untilMs }] of callers.entries()) {
      const from = this.parties[at + 1] ?? '';
      const add = (slot: number, text: string, run: () => void): void => {
        steps.push({ line: { from, text }, touches: 2 << at, slot: (at + 1) * OWN_SLOTS + slot, run });
      };
      if (phase === 'idle' && requests > 0) add(0, 'wants a slot', () => this.#ask(at, true));
      if ((phase === 'asking' || (phase === 'holding' && nowMs < untilMs)) && calls > 0)
        add(0, 'acquires again', () => this.#ask(at, false));
      if (phase === 'holding' || phase === 'asking') add(1, 'releases', () => this.#release(at));
    }
    const pass = (): void => {
      this.state.ticks--;
      this.state.nowMs += TTL_MS / 2;
    };
    const stepBack = (): void => {
      this.state.backs--;
      this.state.clockMs -= 300;
    };
    if (ticks > 0)
      steps.push({ line: { from: 'time', text: `${TTL_MS / 2} ms pass` }, touches: EVERYTHING, run: pass });
    if (backs > 0)
      steps.push({
        line: { from: 'time', text: "the store's clock steps back by 300 ms" },
        touches: EVERYTHING,
        run: stepBack,
      });
    return steps;
  }

  #ask(at: number, isNew: boolean): void {
    const caller = this.#caller(at);
    if (isNew) {
      caller.phase = 'asking';
      caller.holder++;
      caller.requests--;
      caller.calls = 1;
    } else caller.calls--;
    this.#call(at, 'acquire');
  }

  #release(at: number): void {
    const caller = this.#caller(at);
    caller.phase = 'idle';
    caller.untilMs = 0;
    this.#call(at, 'release');
  }

  #call(at: number, kind: 'acquire' | 'release'): void {
    const { holder } = this.#caller(at);
    this.send(at + 1, STORE, `${kind} ${holder}`, { kind, holder, askedMs: this.state.nowMs });
  }

  #caller(at: number): Caller {
    return this.state.callers[at] as Caller; // in range
  }

  protected receive({ from, to, body }: Message<Body>): void {
    if (to === STORE) return this.#step(from, body);
    const caller = this.#caller(to - 1);
    if (caller.holder !== body.holder || caller.phase === 'idle') return; // too late
    if (body.kind === 'granted') {
      caller.phase = 'holding';
      caller.untilMs = Math.max(body.askedMs + TTL_MS, caller.untilMs);
    } else if (caller.phase === 'asking') caller.phase = 'idle';
  }

  #step(from: number, { kind, holder, askedMs }: Body): void {
    const nowMs = this.#storeMs;
    const had = ownSlots(holder, this.state.slots, nowMs, HOLD_SIZE);
    const step = row.step(limit, this.state.slots, nowMs, kind === 'acquire' ? 1 : -1, true, { holder });
    this.state.slots = step.ttlMs > 0 ? step.state : [];
    const has = ownSlots(holder, this.state.slots, nowMs, HOLD_SIZE);
    if (kind === 'release') {
      if (has > 0) throw new Violation('a released slot is still held');
      return;
    }
    if (!step.accepted && has > had) throw new Violation('a refused request holds a slot');
    if (step.accepted && has !== 1) throw new Violation('an admitted request holds no slot');
    const answer = step.accepted ? 'granted' : 'refused';
    this.send(STORE, from, `${answer} ${holder}`, { kind: answer, holder, askedMs });
  }

  get #storeMs(): number {
    return this.state.nowMs + this.state.clockMs;
  }

  protected copy({ nowMs, messages, faults, callers, slots, clockMs, ticks, backs }: HoldsState): HoldsState {
    return {
      nowMs,
      messages: messages.slice(),
      faults,
      callers: callers.map(copyCaller),
      slots,
      clockMs,
      ticks,
      backs,
    };
  }

  protected describeState(hash: Hasher, { callers, slots, clockMs, ticks, backs }: HoldsState): void {
    for (const { holder, requests, calls, phase, untilMs } of callers) {
      hash.word(holder * 64 + requests * 16 + calls);
      hash.word(phase.length);
      hash.number(untilMs);
    }
    hash.numbers(slots);
    hash.number(clockMs);
    hash.word(ticks * 4 + backs);
  }

  protected describeBody(hash: Hasher, { kind, holder, askedMs }: Body): void {
    hash.word(holder * 4 + (kind === 'acquire' ? 0 : kind === 'release' ? 1 : kind === 'granted' ? 2 : 3));
    hash.number(askedMs);
  }

  violation(): string | undefined {
    const { callers, slots, nowMs } = this.state;
    const holding = callers.filter(({ phase, untilMs }) => phase === 'holding' && untilMs > nowMs);
    if (holding.length > limit.requestsPerUnit) return `${holding.length} callers use ${limit.requestsPerUnit} slot`;
    const lost = holding.find(({ holder }) => ownSlots(holder, slots, this.#storeMs, HOLD_SIZE) === 0);
    return lost && `the slot of ${lost.holder} was granted, and is gone before its ttl`;
  }

  end(): string | undefined {
    this.state.faults = 0;
    this.deliverAll();
    this.state.nowMs += 2 * TTL_MS;
    this.state.clockMs = 0;
    const { accepted } = row.step(limit, this.state.slots, this.state.nowMs, limit.requestsPerUnit, false, {
      holder: 99,
    });
    return accepted ? undefined : 'slots are held although the ttl of all requests is over';
  }
}

const copyCaller = ({ holder, requests, calls, phase, untilMs }: Caller): Caller => ({
  holder,
  requests,
  calls,
  phase,
  untilMs,
});

export const holds: Protocol = {
  name: 'holds',
  code: 'engine/holds/in-flight.ts',
  parties: ['store', 'A', 'B'],
  invariants: [
    'never more callers than slots',
    'a granted slot stays for its ttl',
    'a refused request holds nothing',
    'nothing is held after the ttl',
  ],
  depth: 8,
  longDepth: 11,
  create: () => new HoldsWorld(holds.parties, 2),
};

export const holdsOfThree: Protocol = {
  ...holds,
  name: 'holds, three',
  parties: [...holds.parties, 'C'],
  depth: 7,
  longDepth: 11,
  create: () => new HoldsWorld(holdsOfThree.parties, 1),
};
