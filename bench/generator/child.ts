import { drive, type Load, type Tally } from './drive.ts';

/** The generator process's reply to a load. */
export type Reply = { readonly tally: Tally } | { readonly failure: string };

process.on('message', async (load: Load) => {
  process.send?.(await reply(load));
});
process.on('disconnect', () => process.exit());

async function reply(load: Load): Promise<Reply> {
  try {
    return { tally: await drive(load) };
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error) };
  }
}
