import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runEnvoy } from '../helpers/envoy.ts';
import { freePort, type Running, start } from '../helpers/process.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));

/** The environment of a program: the addresses of the others. */
export type Env = Readonly<Record<string, string>>;

/** An example, whose programs run with Node as in its README. */
export interface Example {
  readonly rules: string;
  /** Starts a program, which is ready when it has printed this. */
  run(
    program: string,
    options: { readonly args?: readonly string[]; readonly env: Env; readonly ready: string },
  ): Promise<Running>;
  /**
   * Starts Envoy with the example's envoy.yaml on free ports; ready when it accepts connections of clients.
   *
   * @param ports  ports of the other programs, by their ports in envoy.yaml
   */
  startEnvoy(ports: ReadonlyMap<number, number>): Promise<Running & { readonly port: number }>;
}

export async function openExample(name: string): Promise<Example> {
  const folder = join(EXAMPLES, name);
  return {
    rules: await readFile(join(folder, 'rules.yaml'), 'utf8'),
    async run(program, { args = [], env, ready }) {
      const { PATH, HOME } = process.env;
      const options = { cwd: folder, env: { PATH, HOME, ...PATIENT, ...env }, name: program };
      const running = await start(process.execPath, [program, ...args], options);
      await running.waitFor(ready, START_TIMEOUT_MS);
      return running;
    },
    async startEnvoy(ports) {
      const portFor = new Map(ports);
      const port = await freePort();
      portFor.set(10000, port);
      for (const own of [9901, 10001]) portFor.set(own, await freePort());
      const text = await readFile(join(folder, 'envoy.yaml'), 'utf8');
      const config = text
        .replaceAll(/(?<=port_value: )\d+/g, (written) => String(portFor.get(Number(written))))
        .replaceAll(/(?<=timeout: )(?:0\.25|1)s/g, '60s'); // the machine may be busy
      return { ...(await runEnvoy(config, [port], 2)), port };
    },
  };
}
const START_TIMEOUT_MS = 100_000;
/** How long a program waits for Weir, since the machine may be busy. */
const PATIENT: Env = { TIMEOUT_MS: '60000' };
