let onCheckpoint: (() => void) | undefined;

/**
 * Called by what reads, checks, compiles and compares rules after each piece of work far shorter than a millisecond: a
 * value of a file, a node, a rule. A thread that works beside requests sleeps here now and then.
 */
export function checkpoint(): void {
  onCheckpoint?.();
}

/** Has this thread call a function at each checkpoint; undefined: none. */
export function atCheckpoints(run: (() => void) | undefined): void {
  onCheckpoint = run;
}
