import { createWriteStream, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChaosRule } from './rules.ts';

/**
 * The log of a run. All times are milliseconds since the epoch, with fractions, from one clock that never goes back.
 */
export interface RunLog {
  readonly plan: Plan;
  readonly calls: readonly CallRecord[];
  readonly faults: readonly FaultRecord[];
  readonly scrapes: readonly ScrapeRecord[];
  readonly counts: readonly CountRecord[];
}

/** A comparison of an instance's counters with those of the same process before. */
export interface ScrapeRecord {
  readonly instance: number;
  readonly atMs: number;
  /** The number of series. */
  readonly series: number;
  readonly decreased: readonly { readonly series: string; readonly before: number; readonly after?: number }[];
}

/** The hits that the store has counted for a key since the start of the run. */
export interface CountRecord {
  readonly key: string;
  readonly counted: number;
}

/** The setup of a run, and the bounds that it is checked against. */
export interface Plan {
  readonly topology: string;
  readonly seed: number;
  readonly instances: number;
  /** Number of processes that answer, by instance. Default: one each. */
  readonly workers?: readonly number[];
  readonly rules: readonly ChaosRule[];
  /** Maximum time of a call unless its instance was down or frozen, STORE_TIMEOUT plus a margin. */
  readonly answerWithinMs: number;
  /** How long after the end of a fault calls may still fail, unless the next fault begins. */
  readonly normalWithinMs: number;
}

/** One call of a client, and its outcome. */
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
  /** The policy that answered instead of the counters. */
  readonly degraded?: string;
  /** The id of the request in flight. */
  readonly id?: string;
  /** The call releases a slot. */
  readonly isRelease?: true;
  /** The call commits the hits that the request used. */
  readonly isCommit?: true;
}

/** One fault. */
export interface FaultRecord {
  readonly kind: string;
  /** The target: the counters, the rules, or the instance with this number. */
  readonly on: 'store' | 'rules' | number;
  readonly begunMs: number;
  readonly endedMs: number;
  readonly effects: readonly Effect[];
}

export const overlaps = ({ begunMs, endedMs }: FaultRecord, fromMs: number, toMs: number): boolean =>
  begunMs <= toMs && endedMs >= fromMs;

/** The earliest time at which a call was counted, while these faults froze the clock of the counters. */
export const countedFromMs = ({ sentMs, answeredMs }: CallRecord, frozen: readonly FaultRecord[]): number =>
  Math.min(sentMs, ...frozen.filter((one) => overlaps(one, sentMs, answeredMs)).map(({ begunMs }) => begunMs));

/**
 * data_lost     counters may have been lost at some moment during the fault
 * clock_frozen  a call may have been counted with the time at which the fault began
 * local_lost    the local counts of a process of the instance are lost, since it was restarted
 * unplanned     not in the schedule: an instance exited by itself
 */
export type Effect = 'data_lost' | 'clock_frozen' | 'local_lost' | 'unplanned';

/** A file of JSON lines that is being written. */
export interface Lines<T> {
  write(record: T): void;
  close(): Promise<void>;
}

const files = {
  plan: 'plan.json',
  faults: 'faults.jsonl',
  scrapes: 'scrapes.jsonl',
  counts: 'counts.jsonl',
  calls: /^calls-\d+\.jsonl$/,
} as const;

export const writePlan = (folder: string, plan: Plan): void =>
  writeFileSync(join(folder, files.plan), `${JSON.stringify(plan, undefined, 2)}\n`);

export const openFaults = (folder: string): Lines<FaultRecord> => openLines(join(folder, files.faults));

export const openScrapes = (folder: string): Lines<ScrapeRecord> => openLines(join(folder, files.scrapes));

export const openCounts = (folder: string): Lines<CountRecord> => openLines(join(folder, files.counts));

export const openCalls = (folder: string, client: number): Lines<CallRecord> =>
  openLines(join(folder, `calls-${client}.jsonl`));

function openLines<T>(path: string): Lines<T> {
  const stream = createWriteStream(path);
  return {
    write: (record) => void stream.write(`${JSON.stringify(record)}\n`),
    close: () => new Promise((resolve) => stream.end(resolve)),
  };
}

/** Reads the log of a run from its folder. */
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
    scrapes: lines(files.scrapes) as ScrapeRecord[], // as `openScrapes` wrote them
    counts: lines(files.counts) as CountRecord[], // as `openCounts` wrote them
  };
}
