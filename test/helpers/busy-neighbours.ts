import { type Running, start } from './process.ts';

/** Other processes that want all processors all the time. */
export interface BusyNeighbours {
  stop(): Promise<void>;
}

/** @param count  three for each of two cores by default */
export async function startBusyNeighbours(count = 6): Promise<BusyNeighbours> {
  const started: Running[] = [];
  for (let left = count; left > 0; left--) started.push(await start(process.execPath, ['-e', 'for (;;);']));
  return {
    async stop() {
      await Promise.all(started.map((one) => one.stop('SIGKILL')));
    },
  };
}
