import { stopReasons } from '../../../engine/rules/match/stop.ts';
import { passedOverReasons } from '../../../engine/rules/match/trace.ts';
import {
  type AnswerSchema,
  type AnswerSchemas,
  counterState,
  entries,
  fields,
  flag,
  listOf,
  number,
  oneOf,
  onlyTrue,
  openFields,
  orNull,
  place,
  quota,
  standingOverride,
  text,
  time,
  whatever,
  whole,
} from './parts.ts';

const described = (schema: AnswerSchema, description: string): AnswerSchema => ({ ...schema, description });

const limitOfRequest = fields(
  {},
  { requestsPerUnit: whole, unit: { type: ['string', 'integer'] }, unitMultiplier: whole },
);

/** The body of `/json`: the JSON of a RateLimitRequest. Field names may also be those of the .proto file. */
export const rateLimitRequest: AnswerSchema = described(
  fields(
    {},
    {
      domain: text,
      descriptors: listOf(
        fields(
          {},
          {
            entries: listOf(fields({}, { key: text, value: text })),
            limit: orNull(limitOfRequest),
            hitsAddend: { type: ['string', 'integer', 'null'] },
            isNegativeHits: flag,
          },
        ),
      ),
      hitsAddend: whole,
    },
  ),
  'The JSON of a RateLimitRequest; names may be in snake_case, as in the .proto file.',
);

const code = oneOf('OK', 'OVER_LIMIT');

/** The response of `/json`: the JSON of a RateLimitResponse. */
const rateLimitResponse = openFields(
  { overallCode: code },
  {
    statuses: listOf(
      openFields(
        { code: oneOf('UNKNOWN', 'OK', 'OVER_LIMIT') },
        {
          currentLimit: openFields({}, { name: text, requestsPerUnit: whole, unit: text, unitMultiplier: whole }),
          limitRemaining: whole,
          durationUntilReset: text,
        },
      ),
    ),
    responseHeadersToAdd: listOf(openFields({ key: text }, { value: text })),
  },
);

const level = fields({
  level: whole,
  entry: fields({ key: text, value: text }),
  tried: listOf(
    fields(
      { key: text, kind: oneOf('exact', 'addresses', 'wildcard', 'any_value'), matched: flag },
      { value: text, reason: oneOf(...Object.keys(passedOverReasons)), offset: whole, of: oneOf('key', 'value') },
    ),
  ),
  more: whole,
});

export const nearRule = fields({ rule: text }, { ...place, descriptor: entries });
export const stopReason = oneOf(...Object.keys(stopReasons));

const stop = fields({ level: whole, reason: stopReason, why: text, nearest: listOf(nearRule) });

/** Drawings by `kind`: a bucket's level, a window in parts, the ticks of a log, or a window. */
const drawing = fields(
  { kind: oneOf('level', 'parts', 'ticks', 'window'), capacity: number },
  { parts: listOf(number), windowMs: number, ticks: listOf(listOf(number)) },
);

const limit = fields(
  { rule: text, limit: text, algorithm: text },
  {
    ...place,
    ...{ name: text, active: text, counter: text, code, source: text, failure: text },
    ...{ before: counterState, after: counterState },
    ...{ inactive: onlyTrue, shadow: onlyTrue, quota: onlyTrue, fromRequest: onlyTrue, soft: onlyTrue },
    ...{ replacedBy: listOf(text), drawing, arithmetic: text, delayMs: number, retryAfterMs: orNull(number) },
    site: fields({ base: number, advance: number, used: number, lent: number, borrowed: number }),
    reservation: fields({ event: text, reserved: whole, charged: whole, overrun: whole }),
  },
);

const OUTCOMES = 'limited overridden unlimited inactive replaced no_rule no_domain invalid_limit'.split(' ');

const descriptor = fields(
  { entries, hits: whole, outcome: oneOf(...OUTCOMES), path: listOf(level), limits: listOf(limit) },
  {
    ...{ rule: text, stopped: stop, changesAt: time, quotas: listOf(quota) },
    override: standingOverride,
  },
);

const decision = fields(
  {
    ...{ code, spend: text, why: text, passesInMs: orNull(number), delayMs: number },
    decidedBy: listOf(fields({ descriptor: whole, rule: text, limit: text })),
  },
  { shadowMode: onlyTrue },
);

const worker = fields(
  { process: text, status: whole, sources: listOf(text) },
  { answer: rateLimitResponse, error: text },
);

const explanation = fields(
  { status: { enum: [200, 400, 429] }, descriptors: listOf(descriptor) },
  {
    ...{ answer: rateLimitResponse, error: text, decision, workers: listOf(worker), warning: text },
    rules: fields({ source: text }, { version: text }),
  },
);

const refusals = fields(
  {
    ...{ dropped: whole, more: whole, lost: whole, next: text },
    refusals: listOf(
      fields(
        {
          atMs: number,
          domain: text,
          passesInMs: orNull(number),
          descriptors: listOf(
            fields(
              { entries, outcome: text },
              {
                ...place,
                ...{ hits: whole, rule: text, limit: text, name: text, code, source: text, arithmetic: text },
                ...{ remaining: whole, retryAfterMs: orNull(number) },
                ...{ shadow: onlyTrue, quota: onlyTrue, soft: onlyTrue },
              },
            ),
          ),
        },
        { requestId: text, at: time, process: whatever },
      ),
    ),
  },
  { droppedSince: whole },
);

export const explainAnswers: AnswerSchemas = {
  'POST /api/v1/explain': explanation,
  'GET /api/v1/refusals': refusals,
};
