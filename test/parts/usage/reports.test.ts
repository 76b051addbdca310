import { setTimeout as sleep } from 'node:timers/promises';
import { usageOperations } from '../../../src/parts/usage/operations.ts';

/** A service whose reports end when the test lets them. */
function open() {
  const running: (() => void)[] = [];
  let most = 0;
  const wanted: boolean[] = [];
  const report = async (_: object, isWanted: () => boolean) => {
    const ended = new Promise<void>((resolve) => running.push(resolve));
    most = Math.max(most, running.length);
    await ended;
    wanted.push(isWanted());
    return { rows: [], more: 0, hits: 1, spent: {} };
  };
  const [operation] = usageOperations({ usage: { report }, clock: Date.now } as never); // the properties that it reads
  const ask = async (name: string, socket = { destroyed: false }): Promise<number> => {
    try {
      await operation?.answer({ client: { name }, query: {}, request: { socket } } as never);
      return 200;
    } catch (error) {
      return (error as { readonly status: number }).status;
    }
  };
  /** Lets one report after the other end. */
  const endAll = async (): Promise<void> => {
    for (let idle = 0; idle < 3; idle++) {
      await sleep(1);
      while (running.length > 0) {
        running.shift()?.();
        await sleep(1);
        idle = 0;
      }
    }
  };
  return { ask, endAll, most: () => most, wanted };
}

test('reports are made one after the other, and each token waits for a bounded number of them', async () => {
  const { ask, endAll, most } = open();
  const all = Promise.all([...Array.from({ length: 6 }, () => ask('ann')), ask('ben')]);
  await endAll();
  expect(await all).toEqual([200, 200, 200, 200, 429, 429, 200]);
  expect(most()).toBe(1);
  const again = ask('ann');
  await endAll();
  expect(await again).toBe(200);
});

test('no report is made for a client that has gone meanwhile', async () => {
  const { ask, endAll } = open();
  const socket = { destroyed: false };
  const [first, second] = [ask('ann'), ask('ben', socket)];
  socket.destroyed = true;
  await endAll();
  expect([await first, await second]).toEqual([200, 503]);
});

test('a report learns that its client has gone while it is made', async () => {
  const { ask, endAll, wanted } = open();
  const socket = { destroyed: false };
  const asked = ask('ann', socket);
  await sleep(1);
  socket.destroyed = true;
  await endAll();
  await asked;
  expect(wanted).toEqual([false]);
});
