/** Counts the items that iterators of maps and sets yield while a function runs. */
export async function countItems(run: () => Promise<unknown>): Promise<number> {
  const spies = [new Map().values(), new Set().values()].map((iterator) =>
    jest.spyOn(Object.getPrototypeOf(iterator) as Iterator<unknown>, 'next'),
  );
  try {
    await run();
    return spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
