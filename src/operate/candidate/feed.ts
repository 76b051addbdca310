import type { PackedRules } from '../../engine/rules/compile/packed.ts';

/** The candidate, for processes that answer requests. */
export interface CandidateFeed {
  /** Undefined: there is no candidate. */
  packed(): PackedRules | undefined;
  /** Calls the listener after each change. */
  onChange(listener: () => void): void;
  close(): void;
}

/** The feed of a process that receives the candidate from another one. */
export class ReceivedCandidate implements CandidateFeed {
  readonly #listeners: (() => void)[] = [];
  #packed: PackedRules | undefined;

  packed(): PackedRules | undefined {
    return this.#packed;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  put(packed: PackedRules | undefined): void {
    this.#packed = packed;
    for (const listener of this.#listeners) listener();
  }

  close(): void {}
}
