/** Runs `work`. @returns the largest number of its steps in one turn of the event loop */
export async function mostStepsInATurn(work: (step: () => void) => Promise<unknown>): Promise<number> {
  let steps = 0;
  let most = 0;
  let isDone = false;
  const nextTurn = (): void => {
    most = Math.max(most, steps);
    steps = 0;
    if (!isDone) setImmediate(nextTurn);
  };
  setImmediate(nextTurn);
  try {
    await work(() => steps++);
  } finally {
    isDone = true;
  }
  return Math.max(most, steps);
}
