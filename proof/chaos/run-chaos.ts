import { setTimeout as sleep } from 'node:timers/promises';
import { withCleanup } from '../processes/cleanup.ts';
import { CLOCK_SLACK_MS } from './admission.ts';
import { countedHits, startClients } from './clients.ts';
import { createInstanceFaults, createStoreFaults, faultEffects } from './faults.ts';
import { startFleet } from './fleet.ts';
import { type FaultRecord, openCounts, openFaults, writePlan } from './log.ts';
import { INSTANCES, LOSSY, selectRules, type Topology, WITH_WORKERS, WORKERS } from './rules.ts';
import {
  createSchedule,
  type InstanceFaultKind,
  isMasterLoss,
  type PlannedFault,
  type ScheduleOptions,
} from './schedule.ts';
import { startScrapes } from './scrapes.ts';
import { startStore } from './stores.ts';
import { createWallClock } from './wall-clock.ts';

interface ChaosOptions extends ScheduleOptions {
  readonly topology: Topology;
  /** An empty folder, for the logs, the servers' data and the instances' output. */
  readonly folder: string;
  /** STORE_TIMEOUT of the instances; default 500. A call that takes longer counts as failed, for whatever reason. */
  readonly storeTimeoutMs?: number;
  /** Called before each step. */
  readonly onStep?: (step: string) => void;
}

/** Maximum delay by a busy machine; a call that hangs takes longer. */
const ANSWER_MARGIN_MS = 3_000;
const NORMAL_WITHIN_MS = 5_000;

/** First connections are retried at least once within NORMAL_WITHIN_MS. */
const createSettings = (storeTimeoutMs: number) => ({
  STORE_TIMEOUT: `${storeTimeoutMs}ms`,
  REDIS_STARTUP_INITIAL_INTERVAL: '100ms',
  REDIS_STARTUP_MAX_INTERVAL: '1s',
});

/**
 * Starts counters, instances and clients, injects the faults of the schedule, and leaves the logs in the folder.
 *
 * @throws  a process did not start or recover, or the machine's clock was set
 */
export async function runChaos(options: ChaosOptions): Promise<void> {
  const { topology, seed, folder, storeTimeoutMs = 500, onStep } = options;
  const { nowMs, setByMs } = createWallClock();
  const rules = selectRules(topology);
  const answerWithinMs = storeTimeoutMs + ANSWER_MARGIN_MS;
  const plan = {
    topology,
    seed,
    instances: INSTANCES,
    workers: WORKERS,
    rules,
    answerWithinMs,
    normalWithinMs: NORMAL_WITHIN_MS,
  };
  writePlan(folder, plan);
  await withCleanup(async (onEnd) => {
    const log = openFaults(folder);
    onEnd(log.close);
    const store = await startStore[topology](folder);
    onEnd(store.stop);
    const onUnplanned = (on: number): void => {
      const atMs = nowMs();
      log.write({ kind: 'ended by itself', on, begunMs: atMs, endedMs: atMs, effects: ['unplanned'] });
    };
    const envs = Array.from({ length: INSTANCES }, (_, at) => ({
      ...createSettings(storeTimeoutMs),
      ...(LOSSY.has(at) ? store.lossyEnv : store.env),
    }));
    const fleet = await startFleet({ folder, envs, rules, onUnplanned });
    onEnd(fleet.stop);
    const scrapes = startScrapes(fleet, folder, nowMs);
    onEnd(scrapes.stop);
    const clients = startClients({ ports: fleet.ports, rules, folder, seed, nowMs });
    onEnd(clients.stop);
    const faults = { store: createStoreFaults(store), instance: createInstanceFaults(fleet) };
    const recorded = async <F extends PlannedFault>(
      fault: F,
      on: FaultRecord['on'],
      act: (fault: F) => Promise<unknown>,
    ) => {
      const { kind } = fault;
      const begunMs = nowMs();
      const isSkipped = (await act(fault)) === false;
      const what = isSkipped ? { kind: `${kind} (skipped)`, effects: [] } : { kind, effects: faultEffects[kind] ?? [] };
      log.write({ ...what, on, begunMs, endedMs: nowMs() });
    };
    const steps = createSchedule(topology, options);
    for (const [at, { calmMs, store: onStore, instance: onInstance }] of steps.entries()) {
      const kinds = [onStore, onInstance].flatMap((fault) => (fault ? [fault.kind] : []));
      onStep?.(`fault ${at + 1} of ${steps.length}: ${kinds.join(', ')}`);
      await sleep(calmMs);
      if (onStore && isMasterLoss(onStore.kind)) await store.whole();
      await Promise.all([
        onStore && recorded(onStore, 'store', faults.store),
        onInstance && recorded(onInstance, findTarget(onInstance), faults.instance),
      ]);
    }
    await sleep(NORMAL_WITHIN_MS + storeTimeoutMs);
    await clients.stop();
    const counts = openCounts(folder);
    for (const rule of rules.filter(({ isTotal }) => isTotal))
      counts.write({ key: rule.key, counted: await countedHits(fleet.ports[0] ?? 0, rule) });
    await counts.close();
  });
  const byMs = setByMs();
  if (Math.abs(byMs) > CLOCK_SLACK_MS / 2)
    throw new Error(
      `the machine's clock must not be set during a run, it was set by ${byMs.toFixed(1)} ms: windows cannot be checked`,
    );
}

function findTarget({ kind, target }: PlannedFault<InstanceFaultKind>): FaultRecord['on'] {
  if (kind === 'rules rewritten' || kind === 'rules broken') return 'rules';
  return kind.startsWith('worker') ? WITH_WORKERS : target;
}
