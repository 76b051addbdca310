import { accepts, freePort, start } from './process.ts';
import { type Stoppable, startStoppable } from './stoppable.ts';
import { memcached } from './tools.ts';

/** A memcached for a test, initially empty. */
export interface Memcached extends Stoppable {
  readonly port: number;
  /** 127.0.0.1:<port> */
  readonly address: string;
}

/** Starts a memcached on a free port of 127.0.0.1; ready when it accepts connections. */
export async function startMemcached({ args = [] }: { readonly args?: readonly string[] } = {}): Promise<Memcached> {
  const port = await freePort();
  const launch = async () => {
    const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
    const server = await start(await memcached(), [
      '-l',
      '127.0.0.1',
      '-p',
      String(port),
      '-U',
      '0',
      '-t',
      '1',
      ...user,
      ...args,
    ]);
    await server.waitFor(() => accepts(port));
    return server;
  };
  return { port, address: `127.0.0.1:${port}`, ...(await startStoppable(launch)) };
}
