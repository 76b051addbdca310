import { Hasher } from './hasher.ts';
import { Visited } from './visited.ts';
import { type Line, type Protocol, type Step, Violation, type World } from './world.ts';

/** The explored part of a protocol. */
export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** The number of steps of the longest path. */
  readonly longest: number;
  /** Whether longer paths would reach nothing else. */
  readonly isClosed: boolean;
  readonly violation: Counterexample | undefined;
}

interface Counterexample {
  readonly text: string;
  /** The number of steps. */
  readonly length: number;
  readonly lines: readonly Line[];
}

interface Options {
  readonly depth: number;
  /** Leaves out steps whose order with others makes no difference. */
  readonly reduces: boolean;
  /** Searches for the shortest counterexample, which takes as long again; else the first one is returned. */
  readonly isShortest: boolean;
}

/** Explores all states within a number of steps. */
export function explore(protocol: Protocol, options: Options): Explored {
  const explored = new Search(protocol, options).run();
  let shortest = explored;
  while (options.isShortest && shortest.violation && shortest.violation.length > 0) {
    const shorter = new Search(protocol, { ...options, depth: shortest.violation.length - 1 }).run();
    if (!shorter.violation) break;
    shortest = shorter;
  }
  return { ...explored, violation: shortest.violation };
}

/** Depth-first, with hashes of states, and sleep sets as partial-order reduction. */
class Search {
  readonly #protocol: Protocol;
  readonly #options: Options;
  readonly #visited = new Visited();
  readonly #hash = new Hasher();
  readonly #path: number[] = [];
  #world: World;
  #steps = 0;
  #longest = 0;
  #isClosed = true;
  /** The violation was found after the last step, when no fault happens any more. */
  #isAtEnd = false;

  constructor(protocol: Protocol, options: Options) {
    this.#protocol = protocol;
    this.#options = options;
    this.#world = protocol.create();
  }

  run(): Explored {
    const text = this.#visit(this.#options.depth, 0);
    const { length } = this.#path;
    return {
      states: this.#visited.size,
      steps: this.#steps,
      longest: this.#longest,
      isClosed: this.#isClosed,
      violation: text === undefined ? undefined : { text, length, lines: this.#repeat() },
    };
  }

  /** @returns the violation at the end of the path */
  #visit(left: number, sleeping: number): string | undefined {
    const violation = this.#world.violation();
    if (violation !== undefined) return violation;
    const hash = this.#hash.begin();
    this.#world.describe(hash);
    const entered = this.#visited.enter(hash.low, hash.high, left, sleeping);
    if (!entered) return undefined;
    this.#longest = Math.max(this.#longest, this.#path.length);
    if (left === 0) {
      this.#isClosed &&= this.#world.steps().length === 0;
      return entered.isNew ? this.#end() : undefined;
    }
    const restore = this.#world.save?.() ?? (() => this.#rebuild());
    if (entered.isNew && this.#world.isQuiet()) {
      const remaining = this.#end();
      if (remaining !== undefined) return remaining;
      restore();
    }
    const steps = this.#world.steps();
    let { asleep } = entered;
    let isRestored = true;
    for (const [at, step] of steps.entries()) {
      const bit = step.slot === undefined || !this.#options.reduces ? 0 : 1 << step.slot;
      if ((asleep & bit) !== 0 || (entered.only !== undefined && (entered.only & bit) === 0)) continue;
      if (!isRestored) restore();
      isRestored = false;
      const violation = this.#take(at, step, left - 1, commuting(steps, asleep, step.touches));
      if (violation !== undefined) return violation;
      asleep |= bit;
    }
    return undefined;
  }

  #end(): string | undefined {
    const violation = attempt(() => this.#world.end());
    this.#isAtEnd = violation !== undefined;
    return violation;
  }

  #take(at: number, step: Step, left: number, sleeping: number): string | undefined {
    this.#steps++;
    this.#path.push(at);
    const own = this.#world.save ? step : this.#world.steps()[at]; // of the world that was built last
    const violation = attempt(() => own?.run()) ?? this.#visit(left, sleeping);
    if (violation === undefined) this.#path.pop();
    return violation;
  }

  #rebuild(): void {
    this.#world = this.#protocol.create();
    for (const at of this.#path) this.#world.steps()[at]?.run();
  }

  #repeat(): readonly Line[] {
    this.#world = this.#protocol.create();
    const lines = this.#path.map((at) => {
      const step = this.#world.steps()[at];
      attempt(() => step?.run());
      return step?.line ?? { from: '', text: '' };
    });
    return this.#isAtEnd ? [...lines, { from: '', text: 'all that is on its way arrives, and calls end' }] : lines;
  }
}

/** The steps of a mask that commute with one that touches these parts. */
function commuting(steps: readonly Step[], mask: number, touches: number): number {
  let commute = 0;
  for (const { slot, touches: other } of steps)
    if (slot !== undefined && (mask & (1 << slot)) !== 0 && (touches & other) === 0) commute |= 1 << slot;
  return commute >>> 0;
}

function attempt(run: () => unknown): string | undefined {
  try {
    const violation = run();
    return typeof violation === 'string' ? violation : undefined;
  } catch (error) {
    if (error instanceof Violation) return error.message;
    return `an unexpected error: ${error instanceof Error ? error.stack : String(error)}`;
  }
}
