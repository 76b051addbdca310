import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Work in steps; yields the approximate number of nodes in each step. */
export type Steps<T> = Generator<number, T>;

/** Runs all steps without a pause. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/**
 * Approximate number of nodes that are read in one turn of the event loop: requests wait for a fraction of a
 * millisecond.
 */
const NODES_A_TURN = 32;

/** Approximate number of nodes between collections of the young generation, each of which takes as long as a turn. */
const NODES_A_COLLECTION = 64;

/** The pause between two turns: several times as long as a turn, so that most requests do not wait. */
const PAUSE_MS = 1;

interface BetweenSlices {
  /** Lets requests through; default: pauses for a millisecond. */
  readonly pause?: (() => Promise<unknown>) | undefined;
  readonly collect?: () => void;
}

/** Runs a few steps at a time, and lets requests through in between. */
export async function inSlices<T>(
  steps: Steps<T>,
  { pause = () => sleep(PAUSE_MS), collect = collectYoung }: BetweenSlices = {},
): Promise<T> {
  let [inTurn, uncollected] = [0, 0];
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    inTurn += step.value;
    if (inTurn < NODES_A_TURN) continue;
    uncollected += inTurn;
    inTurn = 0;
    await pause();
    if (uncollected < NODES_A_COLLECTION) continue;
    uncollected = 0;
    collect();
    await pause();
  }
}

type Collect = (how: { readonly type: 'minor' }) => void;

let collect: Collect | undefined;

/**
 * Makes V8 collect its young generation, which takes time proportional to the part in use. By itself, V8 does so after
 * 16 MiB of allocations, and then copies thousands of rules in one pause.
 */
function collectYoung(): void {
  collect ??= openCollect();
  collect({ type: 'minor' });
}

/** V8 offers `gc` only in contexts that are created while the flag is set. */
function openCollect(): Collect {
  setFlagsFromString('--expose-gc');
  const opened = runInNewContext('globalThis.gc') as Collect | undefined; // defined by the flag
  setFlagsFromString('--no-expose-gc');
  return opened ?? ((): void => {});
}
