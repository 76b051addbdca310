import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Case } from '../../conformance/src/case.ts';
import { loadCases } from '../../conformance/src/cases.ts';
import { type Result, runCases } from '../../conformance/src/run.ts';
import { type Addresses, Target } from '../../conformance/src/target.ts';
import { accepts, freePort, start } from '../../test/helpers/process.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { referenceSettings } from '../bench/subjects.ts';

/** A server under test. */
export interface UnderTest {
  readonly addresses: Addresses;
  readonly rulesDir: string;
  stop(): Promise<unknown>;
}

const RELOAD_MS = 15_000;
const FIRST_RULES = 'domain: first\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n';

/** Plays all cases, or those for which `isPlayed`, and stops the server. */
export async function testServer(
  server: UnderTest,
  isPlayed: (one: Case) => boolean = () => true,
): Promise<readonly Result[]> {
  const target = new Target(server.addresses);
  try {
    await target.listen();
    return await runCases(loadCases().filter(isPlayed), target, { rulesDir: server.rulesDir, reloadMs: RELOAD_MS });
  } finally {
    target.close();
    await server.stop();
  }
}

/** Weir with counters in memory. @param main  the program; default: the built one */
export async function startWeirUnderTest(main?: string): Promise<UnderTest> {
  const { folder, rulesDir, statsd } = await prepare();
  const env = { BACKEND_TYPE: 'memory', RULES_PATH: rulesDir, LOG_LEVEL: 'ERROR', ...statsdSettings(statsd) };
  const weir = await startWeir(env, main === undefined ? {} : { main });
  const stop = (): Promise<unknown> => weir.stop('SIGKILL').finally(() => rmSync(folder, { recursive: true }));
  const addresses = { target: `127.0.0.1:${weir.grpcPort}`, http: `127.0.0.1:${weir.httpPort}`, statsd };
  return { addresses, rulesDir, stop };
}

/** envoyproxy/ratelimit with a Redis of its own. */
export async function startReferenceUnderTest(binary: string): Promise<UnderTest> {
  const { folder, rulesDir, statsd } = await prepare();
  const [redis, grpc, http] = await Promise.all([startRedis(), freePort(), freePort()]);
  const service = await start(binary, [], {
    name: 'envoyproxy/ratelimit',
    env: {
      ...(await referenceSettings({ folder, redisUrl: redis.url, grpcPort: grpc, httpPort: http })),
      ...statsdSettings(statsd),
    },
  });
  await service.waitFor(() => accepts(grpc));
  const stop = async (): Promise<void> => {
    await service.stop();
    await redis.stop();
    rmSync(folder, { recursive: true });
  };
  return { addresses: { target: `127.0.0.1:${grpc}`, http: `127.0.0.1:${http}`, statsd }, rulesDir, stop };
}

async function prepare(): Promise<{ readonly folder: string; readonly rulesDir: string; readonly statsd: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'under-test-'));
  const rulesDir = join(folder, 'config');
  mkdirSync(rulesDir);
  writeFileSync(join(rulesDir, 'first.yaml'), FIRST_RULES); // neither server is ready without rules
  return { folder, rulesDir, statsd: await freeUdpPort() };
}

async function freeUdpPort(): Promise<number> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  return port;
}

const statsdSettings = (port: number) => ({
  USE_STATSD: 'true',
  STATSD_PROTOCOL: 'udp',
  STATSD_HOST: '127.0.0.1',
  STATSD_PORT: String(port),
  STATS_FLUSH_INTERVAL: '200ms',
});
