/** Creates a queue for asynchronous work: each task starts when the previous one has ended, successfully or not. */
export function inTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.then(ignore, ignore); // keeps no result
    return done;
  };
}

const ignore = (): void => {};
