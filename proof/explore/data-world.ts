import type { Hasher } from './hasher.ts';
import type { Step, World } from './world.ts';

/** A message on its way between two parties, by index. */
export interface Message<B> {
  readonly from: number;
  readonly to: number;
  /** Its contents as text, in diagrams. */
  readonly text: string;
  readonly body: B;
  readonly sentMs: number;
}

/** The part of a state that all worlds have. Nothing in it is ever changed. */
export interface Common<B> {
  readonly nowMs: number;
  readonly messages: readonly Message<B>[];
  /** Faults that may still happen. */
  readonly faults: number;
}

/** Slots for the own steps of each party. */
export const OWN_SLOTS = 3;

/** Touched by steps whose order with all others matters. */
export const EVERYTHING = -1;

/** A world whose state is data, which pure steps replace by another. */
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
    for (const [at, message] of messages.entries()) {
      const before = messages[at - 1];
      if (this.isOrdered && before?.from === message.from && before.to === message.to) continue;
      const line = { from: this.#name(message.from), to: this.#name(message.to), text: message.text };
      const slot = this.#slot(at);
      const touches = 1 << message.to;
      steps.push({ line, touches, slot, run: () => this.#deliver(at, 0) });
      if (faults === 0 || this.isOrdered) continue;
      const stays = { ...line, fate: 'arrives, and stays on its way' } as const;
      if (this.canArriveTwice(message.body))
        steps.push({ line: stays, touches: EVERYTHING, run: () => this.#deliver(at, 1) });
      steps.push({ line: { ...line, fate: 'lost' }, touches: EVERYTHING, run: () => this.#remove(at, 1) });
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
    const { state } = this;
    return () => {
      this.state = state;
    };
  }

  protected change(changes: Partial<S>): void {
    this.state = { ...this.state, ...changes };
  }

  /** Sends a message. Those from one party to another are in one order, in which they need not arrive. */
  protected send(from: number, to: number, text: string, body: B): void {
    const message: Message<B> = { from, to, text, body, sentMs: this.state.nowMs };
    const messages = [...this.state.messages];
    let at = messages.length;
    while (at > 0 && isBefore(message, messages[at - 1])) at--;
    messages.splice(at, 0, message);
    this.state = { ...this.state, messages };
  }

  /** Delivers all messages, and those that they cause. */
  protected deliverAll(): void {
    for (let left = 1_000; left > 0 && this.state.messages.length > 0; left--) this.#deliver(0, 0);
  }

  #deliver(at: number, copies: 0 | 1): void {
    const message = this.state.messages[at];
    if (!message) return;
    if (copies === 0) this.#remove(at, 0);
    else this.change({ faults: this.state.faults - 1 } as Partial<S>);
    this.receive(message);
  }

  #remove(at: number, faults: 0 | 1): void {
    const { state } = this;
    this.state = {
      ...state,
      messages: state.messages.filter((_, place) => place !== at),
      faults: state.faults - faults,
    };
  }

  /** The place among the messages of the same parties, which only steps of the receiver change. */
  #slot(at: number): number | undefined {
    const { messages } = this.state;
    const { from = 0, to = 0 } = messages[at] ?? {};
    const place = at - messages.findIndex((one) => one.from === from && one.to === to);
    const pair = from * this.parties.length + to;
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

/** A list with one element replaced. */
export const replaced = <T>(list: readonly T[], at: number, change: Partial<T>): readonly T[] =>
  list.map((one, place) => (place === at ? { ...one, ...change } : one));
