import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startMemcached } from '../helpers/memcached.ts';
import { startRedis } from '../helpers/redis.ts';
import { processDeviations } from './deviations.ts';
import { type Backends, playInProcess } from './process.ts';
import { CORPUS, type RecordedCase } from './recorded-case.ts';
import { isPlayableWhole, isPlayableWithKeys } from './run.ts';

/**
 * Cases mostly wait: for polls of files, for the start of a window, for statistics. So several are played at once, each
 * with its own Redis and memcached.
 */
const AT_ONCE = 3;

/** `CONFORMANCE=all` plays every case; else those that recorded.test.ts plays whole are a sample. */
const playsAll = process.env.CONFORMANCE === 'all';
const SAMPLED = 20;

const all: Backends[] = [];
const free: Backends[] = [];
const waiting: ((backends: Backends) => void)[] = [];
beforeAll(async () => {
  const start = async (): Promise<Backends> => ({ redis: await startRedis(), memcached: await startMemcached() });
  all.push(...(await Promise.all(Array.from({ length: AT_ONCE }, start))));
  free.push(...all);
});
afterAll(async () => {
  for (const { redis, memcached } of all) await Promise.all([redis.stop(), memcached.stop()]);
});

async function withBackends<T>(run: (backends: Backends) => Promise<T>): Promise<T> {
  const backends = free.pop() ?? (await new Promise<Backends>((resolve) => waiting.push(resolve)));
  try {
    return await run(backends);
  } finally {
    const next = waiting.shift();
    if (next) next(backends);
    else free.push(backends);
  }
}

const files = readdirSync(CORPUS).filter((name) => name.endsWith('.json'));

describe.each(files)('%s', (file) => {
  const { configs = {}, cases } = JSON.parse(readFileSync(join(CORPUS, file), 'utf8')) as {
    configs?: Record<string, string>;
    cases: RecordedCase[];
  };

  const isPlayedElsewhere = (recorded: RecordedCase): boolean =>
    /^0[1-6]/.test(file) && (isPlayableWhole(recorded) || isPlayableWithKeys(recorded));
  const played = cases.filter((recorded, at) => playsAll || at % SAMPLED === 0 || !isPlayedElsewhere(recorded));

  test.concurrent.each(played.map((recorded) => [recorded.name, recorded] as const))('%s', async (name, recorded) => {
    const reason = processDeviations[name];
    const differences = await withBackends((backends) =>
      playInProcess(recorded, configs, backends, { untilFirst: reason !== undefined }),
    );
    if (reason === undefined) expect(differences).toEqual([]);
    else expect({ reason, differences }).not.toEqual({ reason, differences: [] });
  });
});
