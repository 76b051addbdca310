import { MAX_COUNT, type State } from '../../engine/algorithms/limit.ts';
import type { Operation } from '../../engine/backends/backend.ts';
import type { Snapshot } from '../../engine/backends/fork.ts';
import { type CounterKey, childKey } from '../../engine/backends/key.ts';
import { unpackState } from '../../engine/backends/packed-state.ts';
import { algorithmFor, type Limit } from '../../engine/holds/limits.ts';
import type { Pipeline } from './commands.ts';
import { describeError } from './reason.ts';

/** A counter to be copied. */
export type Copied = Pick<Operation, 'key' | 'limit' | 'shared' | 'share'>;

/** The field of a shared limit's own numbers: see scripts/nodes.ts. */
const PARENT_FIELD = 'p';

/** The read of a counter, with the fields if it is a shared limit. */
interface Read {
  readonly counter: Copied;
  readonly fields: Set<string>;
}

/** Adds the commands that read counters: two for each. @returns the reads, of each counter once */
export function addReads(commands: Pick<Pipeline, 'add'>, counters: readonly Copied[]): readonly Read[] {
  const reads = new Map<CounterKey, Read>();
  for (const counter of counters) {
    const { fields } = reads.get(counter.key) ?? { fields: new Set([PARENT_FIELD]) };
    for (const child of counter.share?.children ?? []) fields.add(String(child));
    reads.set(counter.key, { counter, fields });
  }
  for (const [key, { counter, fields }] of reads) {
    if (algorithmFor(counter.limit).state.hasNodes) commands.add('HMGET', key, ...fields);
    else commands.add('GET', key);
    commands.add('PTTL', key);
  }
  return [...reads.values()];
}

/**
 * Decodes the replies to these commands.
 *
 * @param isOnClock  the counters are decided on a clock of this process: see scripts/counters.ts
 */
export function snapshotFrom(
  replies: readonly unknown[],
  reads: readonly Read[],
  { nowMs, isOnClock }: { readonly nowMs: number; readonly isOnClock: boolean },
): Snapshot {
  const states = new Map<CounterKey, State>();
  const failures = new Map<CounterKey, string>();
  for (const [at, { counter, fields }] of reads.entries()) {
    const { key, limit, shared: window } = counter;
    const [value, leftMs] = [replies[2 * at], replies[2 * at + 1]];
    if (value instanceof Error) {
      // another program's value of another type is replaced by the next hit
      if (window || !value.message.startsWith('WRONGTYPE')) failures.set(key, `redis: ${describeError(value)}`);
    } else if (Array.isArray(value)) {
      for (const [place, name] of [...fields].entries()) {
        const state = value[place] && unpackState(value[place]);
        if (state) states.set(name === PARENT_FIELD ? key : childKey(key, name), state);
      }
    } else if (!Buffer.isBuffer(value)) continue;
    else if (window) {
      const count = readCount(value);
      if (count === undefined) failures.set(key, 'redis: ERR value is not an integer or out of range');
      else states.set(key, [window.windowStartMs, count]);
    } else {
      const state = isOnClock ? unpackState(value) : readState(value, limit, nowMs, Number(leftMs));
      if (state) states.set(key, state);
    }
  }
  return { nowMs, states, failures };
}

/** Twin of the one in scripts/counters.ts. */
function readState(value: Buffer, limit: Limit, nowMs: number, leftMs: number): State | undefined {
  const { startBefore, step } = algorithmFor(limit);
  if (!startBefore) return unpackState(value);
  const count = readCount(value);
  if (count === undefined) return undefined;
  const endMs = nowMs + (leftMs > 0 ? leftMs : step(limit, undefined, nowMs, 1, true).ttlMs);
  return [startBefore(limit, endMs), count];
}

function readCount(value: Buffer): number | undefined {
  const text = value.toString('latin1');
  return /^-?\d+$/.test(text) ? Math.min(Math.max(Number(text), 0), MAX_COUNT) : undefined;
}
