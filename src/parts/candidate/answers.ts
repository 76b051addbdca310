import {
  anyObject,
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
import { ruleJson } from '../../edge/listing/shapes.ts';
import { shownKeys } from '../lab/sketches/shapes.ts';

const ruleProblem = fields(
  {
    severity: oneOf('error', 'warning'),
    /** `descriptors[2].rate_limit.unit`; empty for the file itself. */
    path: text,
    message: text,
  },
  {
    /** Absent: the problem is in the text that was sent. */
    file: text,
    line: whole,
    column: whole,
    /** The number of problems that this one stands for, if they are not listed. */
    count: whole,
  },
);
export type RuleProblem = ValueOf<typeof ruleProblem>;

const problemFields = {
  problems: listOf(ruleProblem),
  /** The number of problems that are not listed. */
  moreProblems: whole,
};
const ruleProblems = fields(problemFields);
export type RuleProblems = ValueOf<typeof ruleProblems>;

const ruleCheck = fields({ ok: flag, ...problemFields }, { domain: text, rules: whole });

const ruleFiles = fields({ domain: text, files: listOf(fields({ name: text, text })) });

const tallyFields = {
  requests: whole,
  liveRefused: whole,
  candidateRefused: whole,
  /** Admitted by the live rules, refused by the candidate. */
  newlyRefused: whole,
  /** Refused by the live rules, admitted by the candidate. */
  newlyPassed: whole,
};
/** The number of requests of one rule, or of all, by both answers. */
const tally = fields(tallyFields);
export type Tally = ValueOf<typeof tally>;

/** The descriptors whose answers differ, the most frequent first. */
const triedKeys = fields({
  /** The number of descriptors; a lower bound if the table is full. */
  count: whole,
  isAtLeast: flag,
  unlistedAtMost: number,
  keys: shownKeys,
});
export type TriedKeys = ValueOf<typeof triedKeys>;

/** The changes by the candidate for one rule. */
const triedRule = fields({
  ...tallyFields,
  /** The path of the candidate's rule; if it has none for the descriptor, of the live one. */
  rule: text,
  /** Whether the live rules, and the candidate, have answered by a rule with this path. */
  inLive: flag,
  inCandidate: flag,
  newlyRefusedKeys: triedKeys,
  newlyPassedKeys: triedKeys,
});
export type TriedRule = ValueOf<typeof triedRule>;

const candidate = fields({
  /** `wrong`: it has problems, and is not tried. */
  state: oneOf('off', 'on', 'wrong'),
  /** The last source; null: there has been no candidate. */
  origin: orNull(oneOf('file', 'api')),
  from: orNull(text),
  by: orNull(text),
  reason: orNull(text),
  loadedAt: orNull(time),
  hash: orNull(text),
  domains: listOf(text),
  ruleCount: whole,
  ...problemFields,
  sample: number,
  /** The start of the figures; null: the candidate is not in use yet. */
  since: orNull(time),
  /** Requests that are waiting or being decided, and their approximate memory. */
  inFlight: whole,
  inFlightBytes: whole,
  maxInFlight: whole,
  /** Requests that were not tried: too many were in flight, or this process was late. */
  dropped: fields({ behind: whole, overload: whole }),
  /** Requests that the counters did not answer in time. */
  failed: whole,
  /** Requests left out of the figures, since their counters may differ from those of a candidate in force. */
  withheld: whole,
  /** Counters in memory that were dropped before they expired, to make room. */
  evicted: whole,
  totals: tally,
  /** The rules with the most changes first. */
  rules: listOf(triedRule),
  /** The number of rules that are not in `rules`. */
  moreRules: whole,
});
export type TriedCandidate = ValueOf<typeof candidate>;

/** What happens to the counters of a limit. */
const counterFates = listOf(fields({ limit: text, counters: oneOf('kept', 'new') }));
export type CounterFates = ValueOf<typeof counterFates>;

/** The candidate as a change of the rule file in force. */
const candidatePatch = fields({
  /** The rule file. */
  file: text,
  before: text,
  after: text,
  /** What has been tried, and what it changes, for the message of a commit. */
  message: text,
  /** Both, for `git am`. */
  patch: text,
});

const candidateDiff = fields({
  added: listOf(fields({ rule: ruleJson, counters: counterFates }, { before: text })),
  removed: listOf(fields({ rule: ruleJson }, { after: text })),
  changed: listOf(fields({ before: ruleJson, after: ruleJson, counters: counterFates })),
  rerouted: listOf(anyObject),
  domains: listOf(anyObject),
  spends: mapOf(fields({}, { before: text, after: text })),
});

export const candidateAnswers = {
  'GET /api/v1/rules/text': ruleFiles,
  'POST /api/v1/rules/check': ruleCheck,
  'GET /api/v1/candidate': candidate,
  'POST /api/v1/candidate': candidate,
  'DELETE /api/v1/candidate': candidate,
  'GET /api/v1/candidate/text': fields({ text }),
  'GET /api/v1/candidate/diff': candidateDiff,
  'GET /api/v1/candidate/patch': candidatePatch,
};
