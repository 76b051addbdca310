import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openQuotaStream, type QuotaStreamClient } from './quota-client.ts';
import { type Redis, startRedis } from './redis.ts';
import { startWeir, type Weir } from './weir.ts';

/** The service with quotas for proxies, and a Redis that it uses only if `launch` sets it. */
export interface QuotaStage {
  readonly weir: Weir;
  readonly redis: Redis;
  /** Starts another instance with the same rules. */
  launch(env?: Readonly<Record<string, string>>): Promise<Weir>;
  /** Opens a stream that is closed after the test. */
  open(proxy?: string, of?: Weir, domain?: string): QuotaStreamClient;
  closeStreams(): void;
}

/** Starts both before the tests of a file, and stops them afterwards. The result may be used inside tests only. */
export function useQuotaService(rules: string): QuotaStage {
  const folder = mkdtempSync(join(tmpdir(), 'rules-'));
  const path = join(folder, 'rules.yaml');
  writeFileSync(path, rules);
  const streams: QuotaStreamClient[] = [];
  const started: { weir?: Weir; redis?: Redis } = {};
  const launch = (env: Readonly<Record<string, string>> = {}): Promise<Weir> =>
    startWeir({ RLQS: 'true', RULES_PATH: path, USE_STATSD: 'false', STORE_TIMEOUT: '60s', ...env });
  const closeStreams = (): void => {
    for (const stream of streams.splice(0)) stream.close();
  };
  const stage: QuotaStage = {
    get weir() {
      return startedAs(started.weir);
    },
    get redis() {
      return startedAs(started.redis);
    },
    launch,
    open(proxy, of = stage.weir, domain = 'edge') {
      const stream = openQuotaStream(`127.0.0.1:${of.grpcPort}`, domain, proxy);
      streams.push(stream);
      return stream;
    },
    closeStreams,
  };
  beforeAll(async () => {
    started.redis = await startRedis();
    started.weir = await launch();
  });
  afterEach(closeStreams);
  afterAll(async () => {
    await started.weir?.stop();
    await started.redis?.stop();
  });
  return stage;
}

function startedAs<T>(one: T | undefined): T {
  if (one === undefined) throw new Error('the service is started before the first test');
  return one;
}
