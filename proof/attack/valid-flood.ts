import type { Attack } from './attack.ts';
import { OrdinaryCalls } from './calls.ts';
import type { Http2Client } from './http2-client.ts';
import type { Profile } from './ledger.ts';
import { ordinaryMessage } from './messages.ts';

/** Real clients have fewer concurrent calls than the server allows. */
const MAX_OPEN_CALLS = 5_000;
const BATCH_CALLS = 200;

/** Sends ordinary calls, and reads the answers, with the bytes, connections and timing of an attack. */
export const validFlood =
  ({ slots, connections }: Profile): ReturnType<Attack['prepare']> =>
  async (attacker) => {
    const calls = new OrdinaryCalls(ordinaryMessage('valid'));
    const clients: Http2Client[] = [];
    const open = async () => void clients.push(await attacker.http2());
    await Promise.all(Array.from({ length: connections }, open));
    const startedMs = performance.now();
    let owedBytes = 0;
    let turn = 0;
    for (const [atMs, bytes] of slots) {
      await attacker.sleep(atMs - (performance.now() - startedMs));
      owedBytes += bytes;
      while (owedBytes >= calls.bytesEach && !attacker.isOver) {
        const client = clients[turn++ % clients.length];
        const count = Math.min(BATCH_CALLS, Math.floor(owedBytes / calls.bytesEach));
        if (!client || !(await sendBatch(client, calls, count))) break;
        owedBytes -= count * calls.bytesEach;
      }
    }
    await Promise.race([Promise.all(clients.map((client) => client.untilEnded(client.begun))), attacker.over]);
  };

async function sendBatch(client: Http2Client, calls: OrdinaryCalls, count: number): Promise<boolean> {
  await client.untilEnded(client.begun + count - MAX_OPEN_CALLS);
  return calls.send(client, count);
}
