import { drive, type Load, type Tally } from './drive.ts';
import { driveHttp, type HttpLoad, type HttpTally } from './drive-http.ts';

/** The generator process's reply to a load. */
export type Reply<T = Tally | HttpTally> = { readonly tally: T } | { readonly failure: string };

process.on('message', async (load: Load | HttpLoad) => {
  process.send?.(await reply(load));
});
process.on('disconnect', () => process.exit());

async function reply(load: Load | HttpLoad): Promise<Reply> {
  try {
    return { tally: await ('users' in load ? driveHttp(load) : drive(load)) };
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error) };
  }
}
