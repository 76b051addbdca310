import type { Logger } from '../../observe/log.ts';
import type { Statistics } from '../../observe/stats.ts';
import type { RuleBook } from '../../rules/book.ts';
import type { Settings } from '../../settings.ts';
import { removeStaleSocket } from '../../transport/listener.ts';
import { start } from '../cannot-start.ts';
import type { Responders } from '../responders.ts';
import { openPool, type Pool } from './pool.ts';
import { createWorkerTotals } from './worker-totals.ts';

/** Time for a worker to end after DRAIN_DELAY and DRAIN_TIMEOUT, for example to send its last traces. */
const END_GRACE_MS = 10_000;

/** Answers requests in WORKERS processes. */
export function createWorkers(settings: Settings, rules: RuleBook, statistics: Statistics, log: Logger): Responders {
  const { GRPC_UDS: path, WORKERS: count, DRAIN_DELAY: delayMs, DRAIN_TIMEOUT: drainMs } = settings;
  const totals = createWorkerTotals(statistics);
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
          onReport: (id, report) => totals.add(id, report, onCall),
          onEnd: totals.ended,
          onRestart: () => {
            restarts++;
          },
        },
        log,
      );
      return pool;
    },
    ask: async (question) => (await pool?.ask(question)) ?? [],
    cache: totals.cache,
    circuits: totals.circuits,
    leased: totals.leased,
    load: totals.load,
    restarts: () => restarts,
    refresh: async () => pool?.report(),
  };
}
