let onCheckpoint: (() => void) | undefined;

/**
 * Reading, checking, compiling and comparing rules call this after each piece of work far shorter than a millisecond: a
 * value of a file, a node, a rule. A process that works while requests are answered sleeps here now and then.
 */
export function checkpoint(): void {
  onCheckpoint?.();
}

/**
 * Sets the function that this process calls at each checkpoint; undefined: none.
 *
 * @returns  the previous function
 */
export function atCheckpoints(run: (() => void) | undefined): (() => void) | undefined {
  const before = onCheckpoint;
  onCheckpoint = run;
  return before;
}
