import { createWriteStream, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChaosRule } from './rules.ts';

/** What a run writes down. All times are milliseconds since the epoch, with fractions, of one clock that never runs backwards. */
export interface RunLog {
  readonly plan: Plan;
  readonly calls: readonly CallRecord[];
  readonly faults: readonly FaultRecord[];
}

/** What was run, and what it is held to. */
export interface Plan {
  readonly topology: string;
  readonly seed: number;
  readonly instances: number;
  /** Processes that answer, by instance; absent: one each. */
  readonly workers?: readonly number[];
  readonly rules: readonly ChaosRule[];
  /** No call may take longer, unless its instance was down or frozen meanwhile: STORE_TIMEOUT and a margin. */
  readonly answerWithinMs: number;
  /** After a fault has ended, and before the next one begins, nothing may fail for longer. */
  readonly normalWithinMs: number;
}

/** One call of a client, and what became of it. */
export interface CallRecord {
  /** `<client>-<number>` */
  readonly call: string;
  readonly key: string;
  readonly hits: number;
  readonly instance: number;
  readonly sentMs: number;
  readonly answeredMs: number;
  /** OK, OVER_LIMIT, or the name of a gRPC status. */
  readonly outcome: string;
  /** The policy that answered where the counters could not. */
  readonly degraded?: string;
  /** The id of the request in flight. */
  readonly id?: string;
  /** It gives a slot back. */
  readonly isRelease?: true;
  /** Its hits are what the request has used. */
  readonly isCommit?: true;
}

/** One fault. */
export interface FaultRecord {
  readonly kind: string;
  /** What was touched: the counters, the rules, or the instance of this number. */
  readonly on: 'store' | 'rules' | number;
  readonly begunMs: number;
  readonly endedMs: number;
  readonly effects: readonly Effect[];
}

/**
 * data_lost     counters may have started anew at some moment of the fault
 * clock_frozen  a call may have been counted at the time when the fault began
 * local_lost    what a process of the instance had counted by itself is gone: it was started anew
 * unplanned     not in the schedule: an instance ended by itself
 */
export type Effect = 'data_lost' | 'clock_frozen' | 'local_lost' | 'unplanned';

/** A file of JSON lines that is being written. */
export interface Lines<T> {
  write(record: T): void;
  close(): Promise<void>;
}

const files = { plan: 'plan.json', faults: 'faults.jsonl', calls: /^calls-\d+\.jsonl$/ } as const;

export const writePlan = (folder: string, plan: Plan): void =>
  writeFileSync(join(folder, files.plan), `${JSON.stringify(plan, undefined, 2)}\n`);

export const openFaults = (folder: string): Lines<FaultRecord> => openLines(join(folder, files.faults));

export const openCalls = (folder: string, client: number): Lines<CallRecord> =>
  openLines(join(folder, `calls-${client}.jsonl`));

function openLines<T>(path: string): Lines<T> {
  const stream = createWriteStream(path);
  return {
    write: (record) => void stream.write(`${JSON.stringify(record)}\n`),
    close: () => new Promise((resolve) => stream.end(resolve)),
  };
}

/** Reads what a run wrote into a folder. */
export function readRunLog(folder: string): RunLog {
  const lines = (name: string): unknown[] =>
    readFileSync(join(folder, name), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  const calls = readdirSync(folder).filter((name) => files.calls.test(name));
  return {
    plan: JSON.parse(readFileSync(join(folder, files.plan), 'utf8')),
    calls: calls.flatMap(lines) as CallRecord[], // as `openCalls` wrote them
    faults: lines(files.faults) as FaultRecord[], // as `openFaults` wrote them
  };
}
