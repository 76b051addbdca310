import type { Hasher } from './hasher.ts';
import type { Line, Step, World } from './world.ts';

/** A message on its way between two parties, by index. */
export interface Message<B> {
  readonly from: number;
  readonly to: number;
  /** Its contents as text, in diagrams. */
  readonly text: string;
  readonly body: B;
  readonly sentMs: number;
}

/** The part of a state that all worlds have. */
export interface Common<B> {
  nowMs: number;
  messages: Message<B>[];
  /** Faults that may still happen. */
  faults: number;
}

/** Slots for the own steps of each party. */
export const OWN_SLOTS = 3;

/** Touched by faults, whose number is limited. */
const FAULTS = 1 << 30;

/** Touched by steps whose order with all others matters. */
export const EVERYTHING = -1;

/** A world whose state is data: steps change it in place, and the search copies it before each. */
export abstract class DataWorld<B, S extends Common<B>> implements World {
  state: S;
  /** Messages of two parties arrive in order, and are lost only with their connection. */
  protected readonly isOrdered: boolean = false;
  readonly parties: readonly string[];

  constructor(parties: readonly string[], state: S) {
    this.parties = parties;
    this.state = state;
  }

  /** Delivers a message, which is not on its way any more. */
  protected abstract receive(message: Message<B>): void;
  /** The steps other than those of messages. */
  protected abstract ownSteps(): Step[];
  /** Copies everything that steps change in place; field by field, which V8 does several times faster than a spread. */
  protected abstract copy(state: S): S;
  protected abstract describeState(hash: Hasher, state: S): void;
  protected abstract describeBody(hash: Hasher, body: B): void;
  protected canArriveTwice(_body: B): boolean {
    return true;
  }

  abstract violation(): string | undefined;
  abstract end(): string | undefined;

  steps(): readonly Step[] {
    const steps = this.ownSteps();
    const { messages, faults } = this.state;
    for (const [at, { from, to, text, body }] of messages.entries()) {
      const before = messages[at - 1];
      if (this.isOrdered && before?.from === from && before.to === to) continue;
      const line = { from: this.#name(from), to: this.#name(to), text };
      steps.push({ line, touches: 1 << to, slot: this.#slot(at), run: () => this.#deliver(at, false) });
      if (faults === 0 || this.isOrdered) continue;
      const fault = (fate: Line['fate'], run: () => void): void => {
        steps.push({
          line: { from: line.from, to: line.to, text, fate },
          touches: (1 << to) | FAULTS,
          slot: undefined,
          run,
        });
      };
      if (this.canArriveTwice(body)) fault('arrives, and stays on its way', () => this.#deliver(at, true));
      fault('lost', () => this.#lose(at));
    }
    return steps;
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

  describe(hash: Hasher): void {
    const { nowMs, messages, faults } = this.state;
    hash.number(nowMs);
    hash.word(faults);
    hash.word(messages.length);
    for (const { from, to, body, sentMs } of messages) {
      hash.word(from * 16 + to);
      hash.number(sentMs);
      this.describeBody(hash, body);
    }
    this.describeState(hash, this.state);
  }

  isQuiet(): boolean {
    return this.state.messages.length === 0;
  }

  save(): () => void {
    const saved = this.copy(this.state);
    return () => {
      this.state = this.copy(saved);
    };
  }

  /** Sends a message. Those from one party to another are in one order, in which they need not arrive. */
  protected send(from: number, to: number, text: string, body: B): void {
    const { messages, nowMs } = this.state;
    const message: Message<B> = { from, to, text, body, sentMs: nowMs };
    let at = messages.length;
    while (at > 0 && isBefore(message, messages[at - 1])) at--;
    messages.splice(at, 0, message);
  }

  /** Delivers all messages, and those that they cause. */
  protected deliverAll(): void {
    for (let left = 1_000; left > 0 && this.state.messages.length > 0; left--) this.#deliver(0, false);
  }

  #deliver(at: number, stays: boolean): void {
    const message = this.state.messages[at];
    if (!message) return;
    if (stays) this.state.faults--;
    else this.state.messages.splice(at, 1);
    this.receive(message);
  }

  #lose(at: number): void {
    this.state.faults--;
    this.state.messages.splice(at, 1);
  }

  /** The place among the messages of the same parties, which only steps of the receiver change. */
  #slot(at: number): number | undefined {
    const { messages } = this.state;
    const { from = 0, to = 0 } = messages[at] ?? {};
    const place = at - messages.findIndex((one) => one.from === from && one.to === to);
    const pair = from * (this.parties.length - 1) + (to < from ? to : to - 1);
    const slot = OWN_SLOTS * this.parties.length + pair * 2 + place;
    return place < 2 && slot < 31 ? slot : undefined;
  }

  #name(party: number): string {
    return this.parties[party] ?? '';
  }
}

/** Messages are kept by sender and receiver, so that their order among others makes no difference. */
const isBefore = (one: { from: number; to: number }, other: { from: number; to: number } | undefined): boolean =>
  other !== undefined && (one.from - other.from || one.to - other.to) < 0;
