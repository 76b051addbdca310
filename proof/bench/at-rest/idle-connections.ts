import { setTimeout as sleep } from 'node:timers/promises';
import { accepts, start } from '../../../test/helpers/process.ts';
import { MIB } from '../../tables/figures.ts';
import { table } from '../../tables/table.ts';
import { bareSite } from './bare-server.ts';
import { startCrowd } from './crowd.ts';
import type { Site } from './site.ts';
import { readRestUsage } from './usage.ts';

/** Maximum time before memory is read, in which V8 collects the garbage of the start and of new connections. */
const MAX_SETTLE_MS = 10_000;
/** Connections opened and closed before anything is measured. */
const WARM_UP = 100;
const CONNECTIONS_PER_SECOND = 2_000;
const BYTES_PER_KIB = 1024;

/** Memory of one service without connections, and with all of them. */
interface Held {
  readonly name: string;
  readonly beforeBytes: number;
  readonly withBytes: number;
}

/**
 * Opens connections to each service in turn; each makes one call and then stays idle. Also opens as many that send
 * nothing, to a server that does nothing.
 *
 * @returns  a table in Markdown
 */
export async function measureIdleConnections(
  sites: readonly Site[],
  { connections, seconds }: { readonly connections: number; readonly seconds: number },
): Promise<string> {
  const settleMs = Math.min(MAX_SETTLE_MS, seconds * 1_000);
  const bare = await hold(await bareSite(), { connections, settleMs, calls: false });
  const services: Held[] = [];
  for (const site of sites) services.push(await hold(site, { connections, settleMs, calls: true }));
  const bytesEach = ({ beforeBytes, withBytes }: Held): number => (withBytes - beforeBytes) / connections;
  const kib = (bytes: number): string => (bytes / BYTES_PER_KIB).toFixed(1);
  return table(
    [`${connections} idle connections`, 'MiB without', 'MiB with them', 'KiB each', 'above a bare socket, KiB'],
    1,
    [bare, ...services].map((held) => [
      held.name,
      ...[held.beforeBytes, held.withBytes].map((bytes) => (bytes / MIB).toFixed(1)),
      kib(bytesEach(held)),
      held === bare ? '' : kib(bytesEach(held) - bytesEach(bare)),
    ]),
  );
}

interface HoldOptions {
  readonly connections: number;
  readonly settleMs: number;
  readonly calls: boolean;
}

async function hold(site: Site, { connections, settleMs, calls }: HoldOptions): Promise<Held> {
  const { name, command, args, env, grpcPort: port } = site;
  console.error(`${connections} connections, ${name} …`);
  const service = await start(command, args, { name, env: { ...env } });
  const crowd = startCrowd();
  try {
    await service.waitFor(() => accepts(port));
    const overMs = (connections / CONNECTIONS_PER_SECOND) * 1_000;
    await crowd.open({ port, connections: WARM_UP, overMs: 1, calls });
    await crowd.close();
    await sleep(settleMs);
    const { residentBytes: beforeBytes } = readRestUsage(service.pid);
    await crowd.open({ port, connections, overMs, calls });
    await sleep(settleMs);
    return { name, beforeBytes, withBytes: readRestUsage(service.pid).residentBytes };
  } finally {
    await crowd.kill();
    await service.stop();
  }
}
