import { randomUUID } from 'node:crypto';
import { operationOf, type RequestOperation } from '../../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { MemcachedBackend } from '../../../../src/engine/backends/memcached/backend.ts';
import { type MemcachedServers, openServers } from '../../../../src/engine/backends/memcached/servers.ts';
import { fakeClock } from '../../../helpers/clock.ts';
import { limitsOfEach } from '../../../helpers/limits.ts';
import { startMemcached } from '../../../helpers/memcached.ts';
import { previousLimit, previousOnMemcached } from '../../../helpers/previous-build.ts';
import { eventually } from '../../../helpers/until.ts';

const START_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;
const monotonicMs = () => performance.now();

test("instances of this and the previous build on one memcached together admit each algorithm's limit, or twice that if its key has changed", async () => {
  const memcached = await startMemcached();
  const servers = [memcached.address];
  const open = async (): Promise<MemcachedServers> => {
    const opened = openServers({ servers, tls: undefined, monotonicMs, onDown: () => {}, onUp: () => {} });
    await eventually(() => opened.health().ready);
    return opened;
  };
  const clock = fakeClock(START_MS);
  const present = new MemcachedBackend(await open(), { clock, monotonicMs });
  const previous = previousOnMemcached(await open(), clock);
  for (const limit of limitsOfEach(20, HOUR_MS).filter(({ algorithm }) => algorithm !== 'sliding_window_log')) {
    const keys = createCounterKeys(`${randomUUID()}:`);
    const [debit, before] = [limit, previousLimit(limit)].map((one) =>
      operationOf({ key: keys(one, 'demo', []) }, one, 1, true),
    ) as [RequestOperation, RequestOperation];
    const asked = Array.from({ length: 80 }, async (_, at) =>
      at % 2 === 0 ? present.run([debit], { spend: 'each', timeoutMs: 10_000 }) : previous.debit([before], 10_000),
    );
    const codes = (await Promise.all(asked)).flat().map(({ code }) => code);
    const most = before.key === debit.key ? 20 : 40;
    expect([limit.counter, codes.filter((code) => code === 'OK').length]).toEqual([limit.counter, most]);
    expect(codes).not.toContain('UNAVAILABLE');
  }
  await Promise.all([present.close(), previous.close()]);
  await memcached.stop();
});
