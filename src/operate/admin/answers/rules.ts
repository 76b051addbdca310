import {
  type AnswerSchema,
  type AnswerSchemas,
  fields,
  flag,
  listOf,
  number,
  oneOf,
  onlyTrue,
  openFields,
  orNull,
  place,
  shownKeys,
  text,
  time,
  whatever,
  whole,
} from './parts.ts';

/** An object whose property names are not fixed. */
const mapOf = (values: AnswerSchema): AnswerSchema => ({ type: 'object', additionalProperties: values });

const problem: AnswerSchema = fields(
  { severity: oneOf('error', 'warning'), message: text },
  { file: text, line: whole, column: whole, path: text, count: whole },
);

/** A rule as rule files write it; the fields of its limits depend on their algorithms. */
const ruleFields = {
  domain: text,
  path: text,
  limits: listOf(
    openFields(
      { algorithm: text, window_ms: number, requests_per_unit: number, on_store_failure: text, consistency: text },
      {
        ...{ name: text, unit: text, unit_multiplier: whole, soft: number, shadow_mode: flag, quota_mode: flag },
        ...{ on_overload: text, local_share: whole },
      },
    ),
  ),
};
const ruleOptions = {
  ...place,
  ...{ unlimited: onlyTrue, shadow_mode: flag, quota_mode: flag, replaces: listOf(text), metadata: whatever },
  ...{ named: oneOf('by_levels', 'by_request'), not_counted: listOf(fields({ entry: whole, as: text })) },
  ...{ overlaid: mapOf(fields({}, place)), times: listOf(listOf({ type: 'object' })) },
};
const rule = fields(ruleFields, ruleOptions);

const domain = fields({ name: text }, { spend: text, overlaid: mapOf(fields({}, place)) });

const rules = fields(
  {
    ...{ loaded: flag, newest: flag, problems: listOf(text), domains: listOf(domain), more: whole },
    rules: listOf(
      fields(
        { ...ruleFields, levels: listOf(text) },
        { ...ruleOptions, schedule: fields({ now: listOf(whole) }, { changes_at_ms: number }) },
      ),
    ),
  },
  {
    hash: text,
    reload: fields({ at_ms: number, text, counters_kept: listOf(text), counters_anew: listOf(text) }),
  },
);

const problems = { problems: listOf(problem), moreProblems: whole };

const checkedRules = fields({ ok: flag, ...problems }, { domain: text, rules: whole });

const ruleFiles = fields({ domain: text, files: listOf(fields({ name: text, text })) });

const candidateText = fields({ text });

const tally = {
  ...{ requests: whole, liveRefused: whole, candidateRefused: whole, newlyRefused: whole, newlyPassed: whole },
};
const changedKeys = fields({ count: whole, isAtLeast: flag, unlistedAtMost: number, keys: shownKeys });

const candidate = fields({
  ...{ state: oneOf('off', 'on', 'wrong'), origin: orNull(oneOf('file', 'api')), from: orNull(text) },
  ...{ by: orNull(text), reason: orNull(text), loadedAt: orNull(time), hash: orNull(text) },
  ...{ domains: listOf(text), ruleCount: whole, ...problems, sample: number, since: orNull(time) },
  ...{
    inFlight: whole,
    inFlightBytes: whole,
    maxInFlight: whole,
    failed: whole,
    withheld: whole,
    evicted: whole,
    moreRules: whole,
  },
  dropped: fields({ behind: whole, overload: whole }),
  totals: fields(tally),
  rules: listOf(
    fields({
      ...{ ...tally, rule: text, inLive: flag, inCandidate: flag },
      ...{ newlyRefusedKeys: changedKeys, newlyPassedKeys: changedKeys },
    }),
  ),
});

const counters = listOf(fields({ limit: text, counters: oneOf('kept', 'new') }));

const ruleDifference = fields({
  added: listOf(fields({ rule, counters }, { before: text })),
  removed: listOf(fields({ rule }, { after: text })),
  changed: listOf(fields({ before: rule, after: rule, counters })),
  rerouted: listOf({ type: 'object' }),
  domains: listOf({ type: 'object' }),
  spends: mapOf(fields({}, { before: text, after: text })),
});

const instances = fields({
  instances: listOf(
    fields(
      {
        ...{ name: text, version: text, workers: whole, startedAtMs: number, atMs: number, isThis: flag },
        ...{ decisionsPerSecond: number, refusedPerSecond: number },
      },
      { rules: text },
    ),
  ),
});

const range = { range: oneOf('60s', '1h', '24h'), stepMs: whole, startedAtMs: number };
const columns = mapOf(listOf(number));

const series = fields({ ...range, series: columns }, { rule: text });

const seriesOfRules = fields({ ...range, atMost: whole, rules: mapOf(columns) });

export const ruleAnswers: AnswerSchemas = {
  'GET /api/v1/candidate': candidate,
  'POST /api/v1/candidate': candidate,
  'DELETE /api/v1/candidate': candidate,
  'GET /api/v1/candidate/text': candidateText,
  'GET /api/v1/candidate/diff': ruleDifference,
  'POST /api/v1/rules/check': checkedRules,
  'GET /api/v1/rules/text': ruleFiles,
  'GET /api/v1/series': series,
  'GET /api/v1/series/rules': seriesOfRules,
  'GET /api/v1/rules': rules,
  'GET /api/v1/instances': instances,
};
