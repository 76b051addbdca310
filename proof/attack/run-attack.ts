import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../../test/helpers/redis.ts';
import { withCleanup } from '../processes/cleanup.ts';
import { MIB, median } from '../tables/figures.ts';
import type { Attack } from './attack.ts';
import { type AttackerProcess, type AttackerQuestion, type Outcome, startAttacker } from './attacker.ts';
import { type Bystander, type Sight, startBystander } from './bystander.ts';
import type { Profile } from './ledger.ts';
import { heldBytes, type Sample, type Service, startService } from './service.ts';

export interface RunOptions {
  /** Checkout with a build. */
  readonly dir: string;
  readonly heapMib: number;
  readonly transport: string;
  /** Time for which the other client sends calls before the attack begins. */
  readonly normalMs: number;
  /** Duration of an attack that does not end by itself. */
  readonly attackMs: number;
  /** Whether the same number of valid bytes is sent to another instance, for comparison. */
  readonly compares: boolean;
}

/** The effect of one attack on the service. */
export interface Result {
  readonly attack: string;
  readonly sentBytes: number;
  readonly connections: number;
  /** Peak of heap and external memory during the attack, minus their size before it. */
  readonly growthBytes: number;
  readonly peakRssBytes: number;
  /** Maximum time that the event loop was blocked. */
  readonly stallMs: number;
  readonly bystander: Sight;
  /** Results of the other client during as many valid bytes or plain descriptors, if compared. */
  readonly valid: Sight | undefined;
  /** Whether the other client's answers are compared too, since the attack had as many descriptors. */
  readonly comparesAnswers: boolean;
  /**
   * Memory after a forced collection, minus memory after one before the attack; undefined if no collection succeeded.
   */
  readonly keptBytes: number | undefined;
  /** Memory that may stay in use since the attack filled budgets that belong to no connection. */
  readonly mayKeepBytes: number;
  /** The end of the service; undefined if it still runs and answered the other client at the end. */
  readonly end: string | undefined;
  readonly faults: readonly string[];
}

/** Additional memory that may be in use after an attack, for caches with bounds of their own. */
export const KEPT_TOLERANCE_BYTES = 8 * MIB;

/**
 * The fraction of the normal load after which a collection is forced; memory at the end of the load is the baseline.
 */
const COLLECT_AT = 0.6;
const RECOVERY_MS = 5_000;
const SETTLE_MS = 500;
/** Time in which the service must serve normally again after an attack; beyond it, it counts as ended. */
const PATIENCE_MS = 15_000;
const POLL_MS = 1_000;
/** Time for many calls of the other client. */
const SERVED_AGAIN_MS = 200;
/** Time by which an attacker's process may exceed its limit before it counts as stuck. */
const ATTACK_GRACE_MS = 20_000;
const WARM_UP_MS = 1_000;
const MAX_VALID_MS = 6_000;

interface Stage {
  readonly service: Service;
  readonly bystander: Bystander;
  readonly attacker: AttackerProcess;
}

/** Runs an attack against a new instance of the service, and the valid flood against another one. */
export async function runAttack(attack: Attack, options: RunOptions): Promise<Result> {
  const { name, tls = false, preparePlain, timeMs = MAX_VALID_MS } = attack;
  const prepare = { kind: 'prepare', name } as const;
  const { result, profile } = await onStage(attack, options, prepare, (stage) => measure(attack, options, stage));
  if (!options.compares) return result;
  const other: AttackerQuestion = preparePlain
    ? { kind: 'prepare plain', name }
    : { kind: 'prepare valid flood', profile, tls };
  const durationMs = preparePlain ? timeMs : MAX_VALID_MS;
  return { ...result, valid: await onStage(attack, options, other, (stage) => compare(stage, durationMs)) };
}

/**
 * Starts the three processes, and ends them after the run.
 *
 * @param question  the attack that the attacker prepares
 */
async function onStage<T>(
  attack: Attack,
  options: RunOptions,
  question: AttackerQuestion,
  run: (stage: Stage) => Promise<T>,
): Promise<T> {
  return withCleanup(async (onEnd) => {
    const redis = attack.redis || attack.frozenRedis ? await startRedis() : undefined;
    if (redis) onEnd(redis.stop);
    const attacker = startAttacker();
    onEnd(attacker.kill);
    const prepared = attacker.ask(question);
    prepared.catch(() => {}); // awaited below, unless the service does not start
    const service = await startService(attack, { ...options, redisUrl: redis?.url });
    onEnd(service.stop);
    await prepared;
    if (attack.frozenRedis) redis?.pause();
    const bystander = await startBystander(service.ports.grpc, attack.tls === true);
    onEnd(bystander.kill);
    return run({ service, bystander, attacker });
  });
}

async function measure(
  { name, timeMs, leavesBytes = 0, preparePlain }: Attack,
  { normalMs, attackMs }: RunOptions,
  { service, bystander, attacker }: Stage,
): Promise<{ readonly result: Result; readonly profile: Profile }> {
  await sleep(normalMs * COLLECT_AT);
  const before = await service.collect();
  service.resetStall();
  await sleep(normalMs * (1 - COLLECT_AT));
  const lateSamples = service.samples.filter(({ atMs }) => atMs > Date.now() - normalMs * (1 - COLLECT_AT));
  const baseline = median(lateSamples.map(heldBytes));
  await bystander.report();
  const startedMs = Date.now();
  const outcome = await attackWith(attacker, service, timeMs ?? attackMs);
  await attacker.kill();
  await sleep(SETTLE_MS);
  const sight = await bystander.report(PATIENCE_MS);
  const during = service.samples.filter(({ atMs }) => atMs >= startedMs);
  const kept = before && (await recover(service, heldBytes(before) + KEPT_TOLERANCE_BYTES + leavesBytes));
  await bystander.report();
  await sleep(SERVED_AGAIN_MS);
  const isSilent = (await bystander.report(PATIENCE_MS)).answered === 0;
  return {
    profile: outcome.profile,
    result: {
      attack: name,
      sentBytes: outcome.profile.bytes,
      connections: outcome.profile.connections,
      growthBytes: Math.max(0, ...during.map(heldBytes)) - baseline,
      peakRssBytes: Math.max(0, ...during.map(({ rss }) => rss)),
      stallMs: Math.max(0, ...during.map(({ stallMs }) => stallMs)),
      bystander: sight,
      valid: undefined,
      comparesAnswers: preparePlain !== undefined,
      mayKeepBytes: leavesBytes,
      keptBytes: kept && heldBytes(kept) - heldBytes(before),
      end: service.end ?? (isSilent ? 'it no longer answers' : undefined),
      faults: outcome.faults,
    },
  };
}

async function compare({ service, bystander, attacker }: Stage, durationMs: number): Promise<Sight> {
  await sleep(WARM_UP_MS);
  await bystander.report();
  await attackWith(attacker, service, durationMs);
  await attacker.kill();
  await sleep(SETTLE_MS);
  return bystander.report(PATIENCE_MS);
}

async function attackWith(attacker: AttackerProcess, service: Service, durationMs: number): Promise<Outcome> {
  const { ports, rulesPath } = service;
  const question: AttackerQuestion = { kind: 'attack', ports, rulesPath, durationMs };
  const outcome = await attacker.ask(question, durationMs + ATTACK_GRACE_MS);
  if (!outcome) throw new Error('the attacker did not report what it did');
  return outcome;
}

/** Forces a collection each second until memory is back to normal or the time is over. @returns the last sample */
async function recover(service: Service, enoughBytes: number): Promise<Sample | undefined> {
  const deadlineMs = Date.now() + RECOVERY_MS;
  for (;;) {
    const after = await service.collect();
    if (!after || heldBytes(after) <= enoughBytes) return after;
    if (Date.now() + POLL_MS > deadlineMs) return after;
    await sleep(POLL_MS);
  }
}
