import { startH2Server } from '../../src/edge/grpc/grpc-h2.ts';
import { Health } from '../../src/edge/rls/health.ts';
import type { Http2Limits } from '../../src/h2/http2/limits.ts';
import type { GrpcServer } from '../../src/h2/server.ts';
import { agreeable, type ServerChanges, withReflection } from './grpc-server.ts';
import { overloadOf } from './overload.ts';

/** A server with our own HTTP/2 implementation, in this process. */
export interface H2Server extends GrpcServer {
  readonly port: number;
  /** Why connections and streams were ended, in order. */
  readonly failures: readonly string[];
}

/**
 * Starts a server on a free port of 127.0.0.1 that is ready and answers OK. `changes` override its options; `limits`
 * apply to each connection.
 */
export async function startH2(changes: ServerChanges = {}, limits: Partial<Http2Limits> = {}): Promise<H2Server> {
  const failures: string[] = [];
  const overload = changes.overload ?? overloadOf();
  const asked = changes.service ?? agreeable;
  const service = changes.overload ? asked : overload.counting(asked); // closing waits for the calls that it counts
  const server = await startH2Server(
    {
      address: { host: '127.0.0.1', port: 0 },
      health: new Health(() => ({ ready: true, reasons: [] })),
      clock: Date.now,
      onConnectionError: (code) => failures.push(code),
      ...withReflection(changes),
      overload,
      service,
    },
    limits,
  );
  return { ...server, failures, port: Number(server.target.split(':').at(-1)) };
}
