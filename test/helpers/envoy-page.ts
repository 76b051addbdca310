import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { runEnvoy } from './envoy.ts';
import { freePort, type Running } from './process.ts';

/** Envoy, running with the configuration of a page, and the port where it accepts requests. */
export interface PageEnvoy {
  readonly envoy: Running;
  readonly port: number;
}

/**
 * Starts Envoy with the configuration on a page of `docs/`, on free ports; ready when it accepts connections.
 *
 * @param edit  changes the configuration before ports are replaced
 */
export async function startPageEnvoy(
  page: string,
  { weirPort, upstreamPort }: { readonly weirPort: number; readonly upstreamPort: number },
  edit: (config: string) => string,
): Promise<PageEnvoy> {
  const text = await readFile(fileURLToPath(new URL(`../../docs/${page}`, import.meta.url)), 'utf8');
  const config = /```yaml\n(admin:[\s\S]*?)```/.exec(text)?.[1] ?? '';
  const [port, adminPort] = [await freePort(), await freePort()];
  const ports = new Map([
    ['9901', adminPort],
    ['10000', port],
    ['8081', weirPort],
    ['10002', upstreamPort],
  ]);
  const edited = edit(config)
    .replaceAll(/(?<=port_value: )\d+/g, (written) => String(ports.get(written)))
    .replace(/(?<=\btimeout: )(?:0\.25s|1s)\b/g, '60s'); // the machine may be busy
  return { envoy: await runEnvoy(edited, [port], 2), port };
}
