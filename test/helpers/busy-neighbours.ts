import { type Running, start } from './process.ts';

/** Other processes that want all processors all the time, three for each of two cores. */
export interface BusyNeighbours {
  stop(): Promise<void>;
}

const COUNT = 6;

export async function startBusyNeighbours(): Promise<BusyNeighbours> {
  const started: Running[] = [];
  for (let left = COUNT; left > 0; left--) started.push(await start(process.execPath, ['-e', 'for (;;);']));
  return {
    async stop() {
      await Promise.all(started.map((one) => one.stop('SIGKILL')));
    },
  };
}
