import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startMemcached } from '../helpers/memcached.ts';
import { startRedis } from '../helpers/redis.ts';
import { processDeviations } from './deviations.ts';
import { type Backends, playInProcess } from './process.ts';
import type { RecordedCase } from './recorded-case.ts';

let backends: Backends;
beforeAll(async () => {
  backends = { redis: await startRedis(), memcached: await startMemcached() };
});
afterAll(async () => {
  await backends.redis.stop();
  await backends.memcached.stop();
});

const files = readdirSync(__dirname).filter((name) => name.endsWith('.json'));

describe.each(files)('%s', (file) => {
  const { configs = {}, cases } = JSON.parse(readFileSync(join(__dirname, file), 'utf8')) as {
    configs?: Record<string, string>;
    cases: RecordedCase[];
  };

  test.each(cases.map((recorded) => [recorded.name, recorded] as const))(
    '%s',
    async (name, recorded) => {
      const reason = processDeviations[name];
      const differences = await playInProcess(recorded, configs, backends, { untilFirst: reason !== undefined });
      if (reason === undefined) expect(differences).toEqual([]);
      else expect({ reason, differences }).not.toEqual({ reason, differences: [] });
    },
    60_000,
  );
});
