import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { accepts, freePort, type Running, start } from './process.ts';
import { envoy as envoyBinary } from './tools.ts';

const ENVOY_YAML = fileURLToPath(new URL('../../envoy.yaml', import.meta.url));

/** Envoy, running with the project's envoy.yaml. */
export interface Envoy extends Pick<Running, 'waitFor'> {
  /** Sends one request through the listener with this port in envoy.yaml, as `user` if given. */
  get(listener: string, path: string, user?: string): Promise<Response>;
  /** Reads a page of its admin interface, such as `/stats`. */
  admin(path: string): Promise<string>;
  /** The actual port of the listener with this port in envoy.yaml. */
  portOf(listener: string): number;
  stop(): Promise<void>;
}

/** Starts Envoy with this configuration, and this number of threads. It is ready when it accepts connections on the ports. */
export async function runEnvoy(config: string, ports: readonly number[], threads = 1): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), 'envoy-'));
  const path = join(folder, 'envoy.yaml');
  await writeFile(path, config);
  const args = ['-c', path, '--use-dynamic-base-id', '--concurrency', String(threads), '--log-level', 'warning'];
  args.push('--file-flush-interval-msec', '100'); // of access logs
  const envoy = await start(await envoyBinary(), args, { name: 'envoy' });
  envoy.exited.then(() => rm(folder, { recursive: true }));
  for (const port of ports) await envoy.waitFor(() => accepts(port));
  return envoy;
}

/** Envoy's answer to a configuration: what it says of one that it accepts, or of the first problem. */
export async function validateEnvoy(config: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'validate-'));
  const path = join(folder, 'envoy.yaml');
  await writeFile(path, config);
  const ran = await promisify(execFile)(await envoyBinary(), ['--mode', 'validate', '-c', path]).catch(
    (error) => error,
  );
  await rm(folder, { recursive: true });
  return ran.stdout + ran.stderr;
}

/**
 * Starts Envoy with envoy.yaml, on free ports and with longer timeouts for Weir; ready when every listener accepts
 * connections.
 *
 * @param weirPort  the gRPC port of Weir
 * @param edit      changes envoy.yaml before ports are replaced; a port written `port_value: =1234` is kept
 */
export async function startEnvoy(weirPort: number, edit = (config: string): string => config): Promise<Envoy> {
  const portFor = new Map([['8081', weirPort]]); // from ports in envoy.yaml to their replacements
  for (const port of ['9901', '10000', '10001', '10002', '10003']) portFor.set(port, await freePort());
  const portOf = (port: string): number => {
    const free = portFor.get(port);
    if (free === undefined) throw new Error(`envoy.yaml has a port that this helper does not replace: ${port}`);
    return free;
  };
  const patient = (config: string): string => config.replaceAll('timeout: 0.25s\n', 'timeout: 60s\n'); // the machine may be busy
  const config = patient(edit(await readFile(ENVOY_YAML, 'utf8')));
  const withPorts = config.replaceAll(/(?<=port_value: )(=?)(\d+)/g, (_, asItIs, port) =>
    asItIs ? port : String(portOf(port)),
  );
  const envoy = await runEnvoy(withPorts, [...portFor.values()]);
  return {
    waitFor: envoy.waitFor,
    get: (listener, where, user) =>
      fetch(`http://127.0.0.1:${portOf(listener)}${where}`, { headers: user === undefined ? {} : { 'x-user': user } }),
    admin: async (page) => (await fetch(`http://127.0.0.1:${portOf('9901')}${page}`)).text(),
    portOf,
    stop: async () => {
      await envoy.stop();
    },
  };
}
