import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './process.ts';
import { asLocal, startWeir, type Weir } from './weir.ts';

/** Sites that run in separate processes, with counters in memory. */
export interface LinkedSites {
  /** In the order of the names. */
  readonly sites: readonly Weir[];
  close(): Promise<void>;
}

/**
 * Starts a site for each name. The sites exchange messages over loopback, without certificates.
 *
 * @param lost  further sites that the others know but that do not run
 */
export async function startLinkedSites(
  rules: string,
  { names, lost = [], env = {} }: { names: readonly string[]; lost?: readonly string[]; env?: Record<string, string> },
): Promise<LinkedSites> {
  const folder = mkdtempSync(join(tmpdir(), 'sites-'));
  const path = join(folder, 'rules.yaml');
  writeFileSync(path, rules);
  const all = await Promise.all([...names, ...lost].map(async (name) => ({ name, port: await freePort() })));
  const sites = await Promise.all(
    all.slice(0, names.length).map(({ name, port }) =>
      startWeir({
        ...{ RULES_PATH: path, USE_STATSD: 'false', SITE: name, SITE_HOST: '127.0.0.1', SITE_PORT: String(port) },
        SITE_PEERS: all
          .filter((one) => one.name !== name)
          .map((one) => `${one.name}=127.0.0.1:${one.port}`)
          .join(),
        ...env,
      }),
    ),
  );
  return {
    sites,
    async close() {
      await Promise.all(sites.map((weir) => weir.stop()));
      rmSync(folder, { recursive: true });
    },
  };
}

/**
 * Polls an operation of the admin API until its answer is as expected.
 *
 * @throws Error  with the last answer, after 20 s
 */
export async function untilAnswer<T>(
  { debugPort }: Pick<Weir, 'debugPort'>,
  path: string,
  isExpected: (answer: T) => boolean,
): Promise<T> {
  const endMs = performance.now() + 100_000;
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${debugPort}/api/v1/${path}`, { headers: asLocal({ debugPort }) });
    const answer = (await response.json()) as T; // as documented
    if (response.ok && isExpected(answer)) return answer;
    if (performance.now() > endMs) throw new Error(`${path} still answers ${JSON.stringify(answer)}`);
    await sleep(50);
  }
}
