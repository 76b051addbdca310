import {
  anyOf,
  fields,
  type JsonShape,
  listOf,
  number,
  oneOf,
  onlyTrue,
  orNull,
  text,
  time,
  type ValueOf,
  whole,
} from '../../../base/shape.ts';
import { shownOverride } from '../../../edge/http/shapes.ts';
import { algorithm, entries, placeFields, stop, tracedLevel } from '../../../edge/listing/shapes.ts';
import { rateLimitResponse } from '../../../edge/wire/shapes.ts';
import { spends } from '../../../engine/algorithms/limit.ts';
import { spareReasons } from '../../../engine/decide/would-refuse.ts';
import { reservationEvents, shareReasons } from '../../../engine/holds/reports.ts';
import { counterState, sharedChild } from './counters.ts';
import { proxyQuota } from './quotas.ts';

export const code = oneOf('OK', 'OVER_LIMIT');

/** Where a decision comes from. */
export const source = oneOf('backend', 'lease', 'refusal', 'allow', 'deny', 'local');

/** A counter's state before the hits of a request, in the terms of its algorithm, for drawing. */
const stateDrawing = anyOf(
  /** A bucket that fills as hits are spent. */
  fields({ kind: oneOf('level'), capacity: number }),
  /** Parts of the window, the oldest first, each with the hits that still count. */
  fields({ kind: oneOf('parts'), capacity: number, parts: listOf(number) }),
  /** The newest hits in the window, each as its age in milliseconds and its number, the oldest first. */
  fields({
    kind: oneOf('ticks'),
    capacity: number,
    windowMs: number,
    ticks: listOf(listOf(number) as JsonShape<readonly [agoMs: number, hits: number]>),
  }),
  /** Requests in flight. */
  fields({ kind: oneOf('slots'), capacity: number, ttlMs: number }),
  /** A window that starts over when it ends. */
  fields({ kind: oneOf('window'), capacity: number, windowMs: number }),
);
export type StateDrawing = ValueOf<typeof stateDrawing>;

/** The answering site's part of a limit that sites share. In whole hits. */
const siteStanding = fields({
  /** Its part of the limit, and the further hits that it may admit in advance. */
  base: number,
  advance: number,
  /** Hits used in this window; for a bucket, tokens not refilled yet, including those lent. */
  used: number,
  lent: number,
  borrowed: number,
});

const explainedLimit = fields(
  {
    rule: text,
    /** `5 per minute`. */
    limit: text,
    algorithm,
  },
  {
    ...placeFields,
    name: text,
    /** The times when it applies; absent: always, or whenever no limit of its schedule does. */
    active: text,
    /** The limit is outside its times. */
    inactive: onlyTrue,
    shadow: onlyTrue,
    quota: onlyTrue,
    /** The limit came with the request. */
    fromRequest: onlyTrue,
    /** Rules that have the limit's name in `replaces`, so that it does not apply. */
    replacedBy: listOf(text),
    /** This and the following fields are absent if the limit was not evaluated. */
    counter: text,
    code,
    source,
    /** Why the counter could not be read; its state is then absent. */
    failure: text,
    /** Before and after the request; absent from further descriptors of the request with the same counter. */
    before: counterState,
    after: counterState,
    /** The state before, in the terms of the algorithm. */
    drawing: stateDrawing,
    arithmetic: text,
    /** What the hits cost a budget, in billionths of its currency. */
    cost: whole,
    soft: onlyTrue,
    /** The standing of this site before the request, if sites share the limit. */
    site: siteStanding,
    /** The outcome of a reservation. */
    reservation: fields({
      event: oneOf(...reservationEvents),
      reserved: whole,
      charged: whole,
      overrun: whole,
    }),
    /** What the child has of a shared limit, in the current second. */
    share: fields({
      reason: oneOf(...shareReasons),
      /** The level whose share or ceiling refuses, from 1; else 0. */
      level: whole,
      used: whole,
      /** Used beyond its own reservation. */
      borrowed: whole,
      /** Left of its reservation. */
      unspent: whole,
      /** Unspent reservations of active siblings. */
      held: whole,
    }),
    /** Children of the shared limit that rules name, those of the descriptor's own level first. */
    children: listOf(sharedChild),
    delayMs: number,
    /** How long until this limit alone would admit it; null: never. */
    retryAfterMs: orNull(number),
  },
);
export type ExplainedLimit = ValueOf<typeof explainedLimit>;

const explainedDescriptor = fields(
  {
    entries,
    hits: whole,
    outcome: oneOf(
      'limited',
      'overridden',
      'unlimited',
      'inactive',
      'replaced',
      'no_rule',
      'no_domain',
      'invalid_limit',
    ),
    path: listOf(tracedLevel),
    limits: listOf(explainedLimit),
  },
  {
    /** The rule's path; absent if none applies. */
    rule: text,
    stopped: stop,
    /** An operator's override for the descriptor, which takes precedence over rule and request. */
    override: shownOverride,
    /** The next time when other limits of the rule's schedule apply; absent: never. */
    changesAt: time,
    /** The proxies' quotas for the bucket with these entries; absent: there are none. */
    quotas: listOf(proxyQuota),
  },
);
export type ExplainedDescriptor = ValueOf<typeof explainedDescriptor>;

/** The limits that would have refused a request, and why they did not; at most 32. */
export const wouldRefuse = listOf(
  fields({ descriptor: whole, rule: text, limit: text, reason: oneOf(...spareReasons) }, { name: text }),
);

const explainedDecision = fields(
  {
    code,
    /** What a refused request spends. */
    spend: oneOf(...spends),
    /** The limits that refuse; empty if the request passes. */
    decidedBy: listOf(fields({ descriptor: whole, rule: text, limit: text })),
    /** A sentence for people. */
    why: text,
    /** How long until the request could pass; null: never. */
    passesInMs: orNull(number),
    delayMs: number,
  },
  { shadowMode: onlyTrue, wouldRefuse },
);
export type ExplainedDecision = ValueOf<typeof explainedDecision>;

/** The HTTP status of `/json`. */
const status: JsonShape<200 | 400 | 429> = { type: 'integer', enum: [200, 400, 429] };
const answerFields = {
  /** The answer of `/json`; absent if the request has none. */
  answer: rateLimitResponse,
  /** Why the request has no answer. */
  error: text,
};

/** What one of several processes answers. */
const worker = fields({ process: text, status, sources: listOf(source) }, answerFields);

/** The answer that a request would get now, and the reason for it. */
export const explanation = fields(
  { status, descriptors: listOf(explainedDescriptor) },
  {
    ...answerFields,
    decision: explainedDecision,
    workers: listOf(worker),
    /** Why a call may get another answer than this one. */
    warning: text,
    /** The rules that it is based on. */
    rules: fields({ source: text }, { version: text }),
  },
);
export type Explanation = ValueOf<typeof explanation>;
