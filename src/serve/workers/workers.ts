import type { Logger } from '../../observe/log.ts';
import type { Statistics } from '../../observe/stats.ts';
import type { RuleBook } from '../../rules/book.ts';
import type { Settings } from '../../settings.ts';
import { removeStaleSocket } from '../../transport/listener.ts';
import { start } from '../cannot-start.ts';
import type { Crew } from '../crew.ts';
import { openPool, type Pool } from './pool.ts';
import { createWhole } from './whole.ts';

/** How long a worker may take after DRAIN_DELAY and DRAIN_TIMEOUT to end: to send its last traces, say. */
const END_GRACE_MS = 10_000;

/** WORKERS processes answer. */
export function createWorkers(settings: Settings, rules: RuleBook, statistics: Statistics, log: Logger): Crew {
  const { GRPC_UDS: path, WORKERS: count, DRAIN_DELAY: delayMs, DRAIN_TIMEOUT: drainMs } = settings;
  const whole = createWhole(statistics);
  let pool: Pool | undefined;
  let restarts = 0;
  return {
    async open(onCall) {
      if (path !== '') await start('GRPC_UDS', `cannot listen on ${path}`, () => removeStaleSocket(path));
      pool = await openPool(
        {
          count,
          rules,
          closeWithinMs: delayMs + drainMs + END_GRACE_MS,
          onReport: (id, report) => whole.add(id, report, onCall),
          onEnd: whole.ended,
          onRestart: () => {
            restarts++;
          },
        },
        log,
      );
      return pool;
    },
    cache: whole.cache,
    circuits: whole.circuits,
    leased: whole.leased,
    load: whole.load,
    restarts: () => restarts,
    refresh: async () => pool?.report(),
  };
}
