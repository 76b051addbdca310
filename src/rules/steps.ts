import { setImmediate as nextTurn } from 'node:timers/promises';
import { checkpoint } from './checkpoint.ts';
import { collectYoung } from './young-collection.ts';

/** Work in steps: yields how many nodes the step was about. */
export type Steps<T> = Generator<number, T>;

/** Takes all steps at once, with a checkpoint after each. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    checkpoint();
  }
}

/** Nodes that are compiled in one turn of the event loop, about: requests wait for a fraction of a millisecond. */
export const NODES_A_TURN = 16;

/** Nodes after which the young generation is collected, about: it takes as long as a turn. */
export const NODES_A_COLLECTION = 128;

/** What takes turns with the slices of work. */
export interface BetweenSlices {
  /** Lets requests through; default: one turn of the event loop. */
  readonly pause?: (() => Promise<unknown>) | undefined;
  /** Default: collects the young generation. */
  readonly collect?: () => void;
}

/** Takes steps a few at a time, and lets requests through in between. */
export async function inSlices<T>(
  steps: Steps<T>,
  { pause = nextTurn, collect = collectYoung }: BetweenSlices = {},
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
