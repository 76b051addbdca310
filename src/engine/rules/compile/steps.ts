import { setTimeout as sleep } from 'node:timers/promises';

/** Work in steps; yields the approximate number of nodes in each step. */
export type Steps<T> = Generator<number, T>;

/** Runs all steps without a pause. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Approximate number of nodes read in one turn of the event loop: requests wait for a fraction of a millisecond. */
const NODES_A_TURN = 32;

/** The pause between two turns: several times as long as a turn, so that most requests do not wait. */
const PAUSE_MS = 1;

/** Runs a few steps at a time, and lets requests through in between. */
export async function inSlices<T>(steps: Steps<T>, pause: () => Promise<unknown> = () => sleep(PAUSE_MS)): Promise<T> {
  let inTurn = 0;
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    inTurn += step.value;
    if (inTurn < NODES_A_TURN) continue;
    inTurn = 0;
    await pause();
  }
}
