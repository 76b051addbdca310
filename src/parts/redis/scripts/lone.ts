import type { Step } from '../../../engine/algorithms/limit.ts';
import {
  addUsage,
  packNumbers,
  readState,
  type ScriptAlgorithm,
  serverMs,
  unpackNumbers,
  writeState,
} from './counters.ts';
import { outcomes } from './format.ts';
import { ARGV, KEYS, redis, struct } from './lua.ts';

/** The one algorithm of the script: see script.ts. */
declare const algorithm: ScriptAlgorithm;

/**
 * Spends hits on one counter, as the dispatcher does for a batch, whose text would take Redis longer than the step.
 *
 * KEYS     the counter; only if the hits are usage, its hash
 * ARGV[1]  little-endian doubles: the numbers of the limit, the hits
 * Returns  as the dispatcher for one spend: the clock, the outcome, the length of the report, the report
 */
export function run(): string {
  const key = KEYS[0] ?? '';
  const nowMs = serverMs();
  const numbers = unpackNumbers(ARGV[0] ?? '');
  const hits = numbers.pop() ?? 0;
  const stored = redis.call<readonly (string | false)[]>('MGET', key)[0] ?? false; // GET fails on a key of another type
  const limit = { algorithm, numbers };
  const before = readState(key, stored, limit, nowMs, true);
  const next: Step = algorithm.step(numbers, before, nowMs, hits, true);
  const packed = packNumbers(next.state);
  writeState(key, stored, before, next.state, packed, limit, nowMs, next.ttlMs);
  const usageKey = KEYS[1];
  if (usageKey !== undefined && next.accepted) addUsage(usageKey, nowMs, key, hits);
  const report = next.report === undefined ? packed : packNumbers(next.report);
  return (
    struct.pack('<ddd', nowMs, next.accepted ? outcomes.acceptedCharged : outcomes.refusedCharged, report.length / 8) +
    report
  );
}
