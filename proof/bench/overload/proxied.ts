import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../../../test/helpers/envoy.ts';
import { accepts, freePort, start } from '../../../test/helpers/process.ts';
import { until } from '../../../test/helpers/until.ts';
import { startWeir } from '../../../test/helpers/weir.ts';
import { DOMAIN } from '../shapes.ts';
import { referenceEnvironment, type Service, type Site } from '../subjects.ts';

export type Environment = Readonly<Record<string, string>>;

/** A rate limit service with a limit for each user of a day. */
export interface LimitedService {
  readonly name: string;
  start(site: Site): Promise<Service>;
}

interface WeirOptions {
  readonly limit: number;
  readonly env: Environment;
  /** The rule's `on_store_failure`. Default: its default. */
  readonly onStoreFailure?: string;
}

/** Weir with its defaults, except for `env`. */
export const weirWith = ({ limit, env, onStoreFailure = 'error' }: WeirOptions): LimitedService => ({
  name: 'Weir',
  async start({ folder, redisUrl }) {
    const rules = join(folder, 'rules.yaml');
    writeFileSync(rules, createRules(limit, onStoreFailure));
    const store: Environment = redisUrl === undefined ? {} : { REDIS_URL: redisUrl };
    const weir = await startWeir({ ...store, ...env, RULES_PATH: rules }, { isPatient: false });
    return { pid: weir.pid, port: weir.grpcPort, stop: weir.stop };
  },
});

const createRules = (limit: number, onStoreFailure: string): string => `
domain: ${DOMAIN}
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: ${limit}, on_store_failure: ${onStoreFailure}}}
`;

/** envoyproxy/ratelimit with its defaults, and without statistics. */
export const referenceWith = (binary: string, limit: number, denyCacheBytes = 0): LimitedService => ({
  name: 'envoyproxy/ratelimit',
  async start(site) {
    const port = await freePort();
    const user = { key: 'user', requestsPerUnit: limit, unit: 'DAY', algorithm: 'fixed_window' } as const;
    const env = await referenceEnvironment({ rules: [user], denyCacheBytes }, site, port);
    const service = await start(binary, [], { name: 'envoyproxy/ratelimit', env });
    await service.waitFor(() => accepts(port));
    return { pid: service.pid, port, stop: service.stop };
  },
});

/** A rate limit service, and an Envoy that calls it for each request. */
export interface Proxied {
  readonly service: Service;
  readonly envoy: Envoy;
  stop(): Promise<void>;
}

/** Listeners of envoy.yaml, by what they do with requests that the service does not decide. */
export const listeners = { open: '10000', closed: '10001' } as const;

const MAX_WAIT_MS = 5_000;

const isDecided = async (envoy: Envoy): Promise<boolean> =>
  (await envoy.get(listeners.open, '/', 'ready')).headers.has('x-ratelimit-limit');

interface ProxiedOptions {
  readonly redisUrl: string | undefined;
  /** How long Envoy waits for a decision. */
  readonly timeoutMs: number;
  /** Whether the service has had no call yet; otherwise it has decided one. */
  readonly isCold?: boolean;
}

export async function startProxied(
  service: LimitedService,
  { redisUrl, timeoutMs, isCold = false }: ProxiedOptions,
): Promise<Proxied> {
  const folder = mkdtempSync(join(tmpdir(), 'overload-'));
  const running = await service.start({ folder, redisUrl });
  const envoy = await startEnvoy(running.port, (config) =>
    config
      .replaceAll('domain: demo', `domain: ${DOMAIN}`)
      .replaceAll(/(?<!connect_)timeout: 0\.25s\n/g, `timeout: ${(timeoutMs / 1_000).toFixed(3)}s\n`),
  );
  // a store may be too far away for any
  if (!isCold) await until('a decision', () => isDecided(envoy), MAX_WAIT_MS).catch(() => {});
  return {
    service: running,
    envoy,
    async stop() {
      await envoy.stop();
      await running.stop();
      rmSync(folder, { recursive: true });
    },
  };
}
