import type { InFlightLimit } from '../holds/in-flight.ts';
import type { Backend } from './backend.ts';
import type { CounterKeys } from './key.ts';

/** How long a process that has ended is counted, and how often the others confirm that they run. */
const TTL_MS = 15_000;
const INTERVAL_MS = 5_000;
const TIMEOUT_MS = 1_000;
/** When a process tries again that could not confirm. */
const RETRY_MS = 500;

/** Name of the counter; those of rules begin with their algorithm. */
const COUNTER = 'weir_instances';
/** Maximum number of processes that are counted. */
const MAX_COUNTED = 1_000;

interface InstancesOptions {
  readonly backend: Pick<Backend, 'run'>;
  /** Keys like those of counters, since the Redis user may be restricted to them. */
  readonly keys: CounterKeys;
  /** Identifies this process. */
  readonly holder: number;
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/** Counts the processes that use a store. Each holds and renews a slot of one limit on requests in flight. */
export function countInstances({ backend, keys, holder, every }: InstancesOptions) {
  const limit: InFlightLimit = {
    algorithm: 'in_flight',
    counter: COUNTER,
    requestsPerUnit: MAX_COUNTED,
    soft: 0,
    windowMs: TTL_MS,
  };
  const operation = { kind: 'spend', key: keys(limit, '', []), limit, hits: 1, blocks: false, holder } as const;
  let latest = 1;
  let previous = 1;
  let isClosed = false;
  let retry: NodeJS.Timeout | undefined;
  const renew = async (): Promise<void> => {
    const [reply] = await backend.run([operation], { spend: 'each', timeoutMs: TIMEOUT_MS });
    clearTimeout(retry);
    if (reply && reply.code !== 'UNAVAILABLE') [previous, latest] = [latest, reply.holds?.held ?? 1];
    else if (!isClosed) retry = setTimeout(renew, RETRY_MS).unref();
  };
  void renew();
  const stop = every(INTERVAL_MS, () => void renew());
  return {
    /** The larger of the last two numbers, since a store that lost its counters takes an interval to know all processes. */
    count: (): number => Math.max(previous, latest),
    close(): void {
      isClosed = true;
      clearTimeout(retry);
      stop();
    },
  };
}
