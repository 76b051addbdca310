import {
  fields,
  flag,
  listOf,
  mapOf,
  number,
  oneOf,
  orNull,
  text,
  time,
  type ValueOf,
  whole,
} from '../../base/shape.ts';
import { workName } from '../../operate/answers/service.ts';

/** Something that needs attention, and what to do about it. */
const statusFinding = fields({
  /** `failing`: requests are not decided by their counters. */
  level: oneOf('failing', 'degraded'),
  problem: text,
  advice: text,
});
export type StatusFinding = ValueOf<typeof statusFinding>;

/** What went wrong for a time in the last day. */
const incident = fields(
  {
    kind: oneOf('outage', 'process', 'slow_store', 'rules'),
    since: time,
    text,
    /** Requests while it lasted, and those of them without a decision. */
    offered: whole,
    undecided: whole,
  },
  /** Absent: it goes on. */
  { until: time },
);
export type ListedIncident = ValueOf<typeof incident>;

/** Half of the calls, and 1 in 100, take longer. */
const latency = fields({ p50Ms: number, p99Ms: number });

/** An instance, as it reports itself. */
const instance = fields(
  {
    name: text,
    version: text,
    workers: whole,
    startedAtMs: number,
    atMs: number,
    /** Whether it is the instance that answers. */
    isThis: flag,
    decisionsPerSecond: number,
    refusedPerSecond: number,
  },
  {
    /** The hash of the rules in force. */
    rules: text,
  },
);
export type Instance = ValueOf<typeof instance>;

/** What an instance is doing, and what needs attention. */
const status = fields(
  {
    /** The worst level of the findings. */
    health: oneOf('healthy', 'degraded', 'failing'),
    /** One sentence, and the clauses that it consists of; `over`: it tells of an incident that has ended. */
    situation: fields({ level: oneOf('calm', 'over', 'degraded', 'failing'), text, clauses: listOf(text) }),
    findings: listOf(statusFinding),
    /** Of the last day, the newest first. */
    incidents: listOf(incident),
    version: text,
    startedAt: time,
    atMs: number,
    /** Requests of the last minute, and what became of each; `degraded`: decided without their counters. */
    lastMinute: fields({
      ...{ offered: whole, passed: whole, refused: whole, undecided: whole, degraded: whole },
      /** Those of them that matched no rule. */
      unmatched: whole,
    }),
    /** Requests without a decision since the start, by reason. */
    undecided: mapOf(whole),
    store: fields(
      {
        description: text,
        /** Requests that failed because of it, since the start. */
        failures: whole,
        /** Nodes that are not called at present, since they did not answer. */
        openCircuits: listOf(text),
      },
      {
        isUp: flag,
        reason: text,
        latencyMs: number,
        lastSuccessAt: time,
        /** What it took in the last minute and day: of a sample of the calls, and of the checks. */
        lastMinute: latency,
        lastDay: latency,
      },
    ),
    rules: fields(
      {
        source: text,
        count: whole,
        /** Why newer rules are not in force: they are invalid, or could not be read, which is tried again. */
        pending: orNull(oneOf('invalid', 'unread')),
        problems: listOf(text),
        moreProblems: whole,
      },
      { hash: text, loadedAt: time },
    ),
    overrides: fields({ count: whole }, { nextEnd: time }),
    candidate: fields({ state: oneOf('off', 'on', 'wrong') }, { hash: text, loadedAt: time }),
    workers: fields({ expected: whole, restarts: whole }),
    /** Work beside the answers that is on; with `since` and `reason` if it fails, and is tried again. */
    background: listOf(
      fields(
        {
          name: workName,
          /** Goes on with `is failing`. */
          does: text,
        },
        { since: time, reason: text },
      ),
    ),
    /** Resident memory of all processes and of each kind, and what it is used for as far as that is known. */
    memory: listOf(
      fields(
        { kind: oneOf('all', 'process', 'use'), owner: text, bytes: number },
        { maxBytes: number, counters: whole },
      ),
    ),
    /** The instances on the same store, this one included. */
    instances: listOf(instance),
  },
  {
    /** Why only this instance is listed. */
    instancesNote: text,
  },
);
export type Status = ValueOf<typeof status>;

export const statusAnswers = {
  'GET /api/v1/status': status,
  'GET /api/v1/instances': fields({ instances: listOf(instance) }),
};
