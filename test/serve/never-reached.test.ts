import '../helpers/realm.ts';
import type { Ledger } from '../../src/engine/ledger/ledger.ts';
import { whenNeverReached } from '../../src/serve/decider/store.ts';
import { freePort, start } from '../helpers/process.ts';
import { MAIN } from '../helpers/weir.ts';

const DAY_MS = 86_400_000;
const storeThat = (ready: boolean) => ({
  ledger: { health: () => ({ ready, reason: 'refused' }) } as Pick<Ledger, 'health'> as Ledger, // nothing else is called
  description: 'in Redis',
});

test('the time that the store is given begins with the start of the process, not when the service is open', async () => {
  const { message } = await whenNeverReached(DAY_MS, storeThat(false), DAY_MS);
  expect(message).toBe(
    `REDIS_STARTUP_MAX_ELAPSED_TIME: counters in Redis could not be reached within ${DAY_MS} ms of the start`,
  );
});

test('a store that is reached at the last moment counts as reached', async () => {
  const other = whenNeverReached(DAY_MS, storeThat(false), DAY_MS); // its timer is set later
  const late = whenNeverReached(DAY_MS, storeThat(true), DAY_MS);
  expect(await Promise.race([late, other.then(() => 'reached')])).toBe('reached');
});

test.each(['1', '2'])(
  'with %s worker(s) the process ends without draining if it never reaches Redis',
  async (WORKERS) => {
    const [GRPC_PORT, PORT, DEBUG_PORT, closed] = await Promise.all(Array.from({ length: 4 }, freePort));
    const ports = { GRPC_PORT: `${GRPC_PORT}`, PORT: `${PORT}`, DEBUG_PORT: `${DEBUG_PORT}` };
    const weir = await start(process.execPath, [MAIN, 'serve'], {
      name: 'weir',
      env: {
        ...{ PATH: process.env.PATH, USE_STATSD: 'false', WORKERS, ...ports, REDIS_URL: `127.0.0.1:${closed}` },
        ...{ REDIS_STARTUP_MAX_ELAPSED_TIME: '1s', DRAIN_DELAY: '1h', DRAIN_TIMEOUT: '1h' },
      },
    });
    expect(await weir.exited).toEqual({ code: 1, signal: null });
    expect(weir.output()).toContain('could not be reached within 1000 ms of the start');
  },
);
