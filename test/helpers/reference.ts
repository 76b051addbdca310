import { findProgram } from '../../proof/bench/peers/peer.ts';
import { referencePeer } from '../../proof/bench/peers/reference.ts';
import { referenceSettings } from '../../proof/bench/subjects.ts';
import { accepts, freePort, type Running, start } from './process.ts';
import { goCommand } from './tools.ts';

/** envoyproxy/ratelimit, running. */
export interface Reference extends Running {
  readonly grpcPort: number;
  readonly httpPort: number;
}

/** Path of envoyproxy/ratelimit: that of REFERENCE_BIN, else built at the version that the benchmarks pin. */
export async function referenceProgram(): Promise<string> {
  const found = findProgram(referencePeer, process.env);
  if (found !== undefined) return found;
  await goCommand();
  await referencePeer.build();
  return referencePeer.cached;
}

/**
 * Starts envoyproxy/ratelimit on 127.0.0.1 and free ports; ready when its gRPC port accepts connections.
 *
 * @param site  its rules are in the folder's `config`
 * @param env  further settings
 */
export async function startReference(
  site: { readonly folder: string; readonly redisUrl: string },
  env: Readonly<Record<string, string>> = {},
): Promise<Reference> {
  const [grpcPort, httpPort, program] = [await freePort(), await freePort(), await referenceProgram()];
  const settings = await referenceSettings({ ...site, grpcPort, httpPort });
  const running = await start(program, [], { name: 'envoyproxy/ratelimit', env: { ...settings, ...env } });
  await running.waitFor(() => accepts(grpcPort));
  return { ...running, grpcPort, httpPort };
}
