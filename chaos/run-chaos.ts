import { setTimeout as sleep } from 'node:timers/promises';
import { CLOCK_SLACK_MS } from './admission.ts';
import { startClients } from './clients.ts';
import { createInstanceFaults, createStoreFaults, effectsOf } from './faults.ts';
import { startFleet } from './fleet.ts';
import { type FaultRecord, openFaults, writePlan } from './log.ts';
import { INSTANCES, rulesOf, WITH_WORKERS, WORKERS } from './rules.ts';
import { type InstanceFaultKind, isMasterLoss, type PlannedFault, scheduleOf, type Topology } from './schedule.ts';
import { startStore } from './stores.ts';
import { createWallClock } from './wall-clock.ts';

export interface ChaosOptions {
  readonly topology: Topology;
  readonly seed: number;
  /** Of the schedule; what is started, waited for and stopped comes on top. */
  readonly lengthMs: number;
  /** Empty: takes the logs, the data of the servers and what the instances print. */
  readonly folder: string;
  /** Called before each step. */
  readonly onStep?: (step: string) => void;
}

const STORE_TIMEOUT_MS = 500;
/** A machine that is busy may be late by so much; a call that hangs is later. */
const ANSWER_MARGIN_MS = 3_000;
const NORMAL_WITHIN_MS = 5_000;

/** A connection that has never been there is tried anew within the time that things may take to be normal. */
const SETTINGS = {
  STORE_TIMEOUT: `${STORE_TIMEOUT_MS}ms`,
  REDIS_STARTUP_INITIAL_INTERVAL: '100ms',
  REDIS_STARTUP_MAX_INTERVAL: '1s',
};

/**
 * Starts counters, instances and clients, does to them what the schedule says, and leaves the logs in the folder.
 *
 * @throws  something could not be started, or did not come back; the machine's clock was set
 */
export async function runChaos({ topology, seed, lengthMs, folder, onStep }: ChaosOptions): Promise<void> {
  const { nowMs, setByMs } = createWallClock();
  const rules = rulesOf(topology);
  const answerWithinMs = STORE_TIMEOUT_MS + ANSWER_MARGIN_MS;
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
  const closing: (() => Promise<unknown>)[] = [];
  try {
    const log = openFaults(folder);
    closing.push(log.close);
    const store = await startStore[topology](folder);
    closing.push(store.stop);
    const onUnplanned = (on: number): void => {
      const atMs = nowMs();
      log.write({ kind: 'ended by itself', on, begunMs: atMs, endedMs: atMs, effects: ['unplanned'] });
    };
    const fleet = await startFleet({ folder, env: { ...SETTINGS, ...store.env }, rules, onUnplanned });
    closing.push(fleet.stop);
    const clients = startClients({ ports: fleet.ports, rules, folder, seed, nowMs });
    closing.push(clients.stop);
    const faults = { store: createStoreFaults(store), instance: createInstanceFaults(fleet) };
    const recorded = async <F extends PlannedFault>(
      fault: F,
      on: FaultRecord['on'],
      act: (fault: F) => Promise<void>,
    ) => {
      const { kind } = fault;
      const begunMs = nowMs();
      await act(fault);
      log.write({ kind, on, begunMs, endedMs: nowMs(), effects: effectsOf[kind] ?? [] });
    };
    const steps = scheduleOf(topology, seed, lengthMs);
    for (const [at, { calmMs, store: onStore, instance: onInstance }] of steps.entries()) {
      const kinds = [onStore, onInstance].flatMap((fault) => (fault ? [fault.kind] : []));
      onStep?.(`fault ${at + 1} of ${steps.length}: ${kinds.join(', ')}`);
      await sleep(calmMs);
      if (onStore && isMasterLoss(onStore.kind)) await store.whole();
      await Promise.all([
        onStore && recorded(onStore, 'store', faults.store),
        onInstance && recorded(onInstance, targetOf(onInstance), faults.instance),
      ]);
    }
    await sleep(NORMAL_WITHIN_MS + STORE_TIMEOUT_MS);
  } finally {
    for (const close of closing.reverse()) await close();
  }
  const byMs = setByMs();
  if (Math.abs(byMs) > CLOCK_SLACK_MS / 2)
    throw new Error(
      `the machine's clock must not be set during a run, it was set by ${byMs.toFixed(1)} ms: windows cannot be checked`,
    );
}

function targetOf({ kind, target }: PlannedFault<InstanceFaultKind>): FaultRecord['on'] {
  if (kind === 'rules rewritten' || kind === 'rules broken') return 'rules';
  return kind === 'worker killed' ? WITH_WORKERS : target;
}
