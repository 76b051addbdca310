import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work in steps: yields how many nodes the step was about. */
export type Steps<T> = Generator<number, T>;

/** Takes all steps at once. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Nodes that are compiled in one turn of the event loop, about: requests wait for less than a millisecond. */
const NODES_A_TURN = 32;

/** Takes steps a few at a time, and lets requests through in between. */
export async function inSlices<T>(steps: Steps<T>, pause: () => Promise<unknown> = nextTurn): Promise<T> {
  for (let nodes = 0; ; ) {
    const step = steps.next();
    if (step.done) return step.value;
    nodes += step.value;
    if (nodes < NODES_A_TURN) continue;
    nodes = 0;
    await pause();
  }
}
