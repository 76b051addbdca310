import { accepts, freePort, start } from './process.ts';
import { memcached } from './tools.ts';

/** A memcached of a test's own, empty at first. */
export interface Memcached {
  readonly port: number;
  /** 127.0.0.1:<port> */
  readonly address: string;
  /** Freezes it: connections stay open and are accepted, nothing is answered. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
  /** Empty again, on the same port; also after stop(). */
  restart(): Promise<void>;
}

/** Starts a memcached on a free port of 127.0.0.1; ready when it accepts connections. */
export async function startMemcached(): Promise<Memcached> {
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
    ]);
    await server.waitFor(() => accepts(port));
    return server;
  };
  let server = await launch();
  const stop = async () => {
    server.kill('SIGCONT'); // a frozen process handles no SIGTERM
    await server.stop();
  };
  return {
    port,
    address: `127.0.0.1:${port}`,
    pause: () => server.kill('SIGSTOP'),
    resume: () => server.kill('SIGCONT'),
    stop,
    restart: async () => {
      await stop();
      server = await launch();
    },
  };
}
