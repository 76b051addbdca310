import { fileURLToPath } from 'node:url';
import { readLocalToken } from '../../src/operate/admin/local-token.ts';
import { accepts, freePort, type Running, start } from './process.ts';

/** The compiled command line. */
export const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** Settings for tests of the service, since the machine may be busy. */
export const PATIENT = { STORE_TIMEOUT: '10s' };

/** Whether the output of the service says that it is open, in either format. */
export const isOpen = (output: string): boolean => /^ {2}gRPC |"@message":"Weir \S+ is open"/m.test(output);

/** The built service, running. */
export interface Weir extends Pick<Running, 'pid' | 'exited' | 'output' | 'stop' | 'waitFor'> {
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly debugPort: number;
}

/** The header of a client on this machine that reads what callers sent, of a service without ADMIN_TOKEN. */
export const asLocal = ({ debugPort }: Pick<Weir, 'debugPort'>): { readonly authorization?: string } => {
  const token = readLocalToken(new URL(`http://127.0.0.1:${debugPort}`));
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
};

interface WeirOptions {
  readonly args?: readonly string[];
  readonly main?: string;
  readonly node?: string;
  readonly cwd?: string;
  readonly isPatient?: boolean;
}

/**
 * Starts `weir serve` on 127.0.0.1 and free ports. It is ready when it has logged so and its gRPC port, unless it is a
 * unix socket, accepts connections.
 *
 * @param main  the program; default: the built one
 * @param node  the Node that runs it; default: this process's
 * @param cwd  its working directory; default: this process's
 * @param isPatient  whether it has the settings for a busy machine; default: true
 * @param env  environment variables besides PATH and HOME; a port set here is not replaced
 */
export async function startWeir(
  env: Readonly<Record<string, string>> = {},
  { args = [], main = MAIN, node = process.execPath, cwd = process.cwd(), isPatient = true }: WeirOptions = {},
): Promise<Weir> {
  const { PATH, HOME, TMPDIR } = process.env;
  const loopback = { HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' };
  const ports = {
    GRPC_PORT: env.GRPC_PORT ?? String(await freePort()),
    PORT: env.PORT ?? String(await freePort()),
    DEBUG_PORT: env.DEBUG_PORT ?? String(await freePort()),
  };
  const { pid, exited, output, stop, waitFor } = await start(node, [main, 'serve', ...args], {
    cwd,
    env: { PATH, HOME, ...(TMPDIR && { TMPDIR }), ...loopback, ...(isPatient && PATIENT), ...env, ...ports },
    name: 'weir',
  });
  const grpcPort = Number(ports.GRPC_PORT);
  await waitFor(async (printed) => isOpen(printed) && ('GRPC_UDS' in env || (await accepts(grpcPort))));
  return {
    grpcPort,
    httpPort: Number(ports.PORT),
    debugPort: Number(ports.DEBUG_PORT),
    pid,
    exited,
    output,
    stop,
    waitFor,
  };
}
