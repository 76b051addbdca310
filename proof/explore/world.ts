import type { Hasher } from './hasher.ts';

/** A line of a sequence diagram: a message, or an event at one party if `to` is absent. */
export interface Line {
  readonly from: string;
  readonly to?: string;
  readonly text: string;
  /** What becomes of the message instead of its arrival. */
  readonly fate?: 'lost' | 'arrives, and stays on its way' | undefined;
}

/** A step that a world can take next. */
export interface Step {
  readonly line: Line;
  /** A bit for each part of the world that the step reads or changes; steps without a common bit commute. */
  readonly touches: number;
  /**
   * Identifies the step among those of a state, from 0 to 30, and after steps that commute with it, too. Absent: the
   * step is never left out.
   */
  readonly slot?: number | undefined;
  run(): void;
}

/** Processes, a store and messages in one state. Steps and their order depend on nothing else. */
export interface World {
  steps(): readonly Step[];
  /** Adds everything that determines the future to the hash. */
  describe(hash: Hasher): void;
  /** The invariant that this state violates, as a sentence. */
  violation(): string | undefined;
  /** Whether no message is on its way: only then, and after the last step, is the end of the world checked. */
  isQuiet(): boolean;
  /** Lets everything end without further faults. @returns the violation that remains. The world is of no use then. */
  end(): string | undefined;
  /** Returns a function that restores this state. Absent: the search repeats the steps from the beginning. */
  save?(): () => void;
}

/** A protocol to explore: a small world that runs the modules of src/. */
export interface Protocol {
  readonly name: string;
  /** The modules that run in it. */
  readonly code: string;
  readonly parties: readonly string[];
  readonly invariants: readonly string[];
  /** The number of steps explored by default, and in the long form. */
  readonly depth: number;
  readonly longDepth: number;
  create(): World;
}

/** Violated by a step itself. */
export class Violation extends Error {
  override readonly name = 'Violation';
}
