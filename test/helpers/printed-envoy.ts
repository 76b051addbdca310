import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { runEnvoy } from './envoy.ts';
import { freePort, type Running } from './process.ts';
import { MAIN } from './weir.ts';

/** Envoy, running with the configuration that `weir envoy` prints. */
export interface PrintedEnvoy extends Pick<Running, 'stop'> {
  /** The port on 127.0.0.1 where it accepts requests. */
  readonly port: number;
  readonly adminPort: number;
}

export interface PrintedEnvoyOptions {
  /** The rule file. */
  readonly rules: string;
  /** `--grpc`, the gRPC address of Weir. */
  readonly target: string;
  readonly upstreamPort: number;
  /** Changes the configuration before Envoy starts. */
  readonly edit?: (config: string) => string;
}

/**
 * Starts Envoy with the configuration that `weir envoy` prints for the rules; only the other servers' ports and the
 * timeout for Weir are replaced, since the machine may be busy.
 */
export async function startPrintedEnvoy(options: PrintedEnvoyOptions): Promise<PrintedEnvoy> {
  const { rules, target, upstreamPort, edit = (config) => config } = options;
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, 'envoy', rules, '--grpc', target]);
  const [port, adminPort] = [await freePort(), await freePort()];
  const config = stdout
    .replace('address: 0.0.0.0, port_value: 10000', `address: 127.0.0.1, port_value: ${port}`)
    .replace('port_value: 9901', `port_value: ${adminPort}`)
    .replace('port_value: 8000', `port_value: ${upstreamPort}`)
    .replace('timeout: 0.25s', 'timeout: 60s');
  const { stop } = await runEnvoy(edit(config), [port, adminPort]);
  return { port, adminPort, stop };
}
