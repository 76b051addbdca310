import {
  type AnswerSchema,
  type AnswerSchemas,
  counterState,
  counterWith,
  entries,
  fields,
  flag,
  listOf,
  oneOf,
  orNull,
  place,
  standingOverride,
  text,
  time,
  whatever,
  whole,
} from './parts.ts';

const counter = { counter: text };

/** The counters of one descriptor, or a page of all. */
const counters: AnswerSchema = {
  oneOf: [
    fields(
      { domain: text, entries, counters: listOf(counterWith(counter, { ...place, name: text })) },
      { override: standingOverride },
    ),
    fields({ looked: whole, counters: listOf(counterWith({ domain: text, entries })) }, { next: text }),
  ],
};

const changedCounters = fields(
  {
    domain: text,
    entries,
    counters: listOf(counterWith({ ...counter, before: counterState }, { ...place, name: text })),
  },
  { override: standingOverride },
);

const ofOverride = { domain: text, descriptor: text, entries, effect: text, until: time, by: text, reason: text };
const override = fields(ofOverride);
const setOverride = fields(ofOverride, { warning: text });

const overrides = fields({ overrides: listOf(override) });

const audit = fields({
  changes: listOf(
    fields(
      { at: time, who: text, change: text, reason: text, what: { type: 'object' } },
      { before: whatever, after: whatever, failed: text },
    ),
  ),
});

const recording = fields({ recording: flag, until: orNull(time) });

const signedIn = fields({ name: text, role: oneOf('read', 'operate'), csrf: text });

const session = fields(
  { version: text, name: text, needsToken: flag, hashKeys: flag },
  { role: oneOf('read', 'operate'), grpcPort: whole, hasQuotas: flag, hasSites: flag, csrf: text },
);

export const counterAnswers: AnswerSchemas = {
  'GET /api/v1/counters': counters,
  'POST /api/v1/counters/reset': changedCounters,
  'POST /api/v1/counters/grant': changedCounters,
  'GET /api/v1/audit': audit,
  'GET /api/v1/overrides': overrides,
  'PUT /api/v1/overrides': setOverride,
  'DELETE /api/v1/overrides': override,
  'GET /api/v1/recording': recording,
  'PUT /api/v1/recording': recording,
  'GET /api/v1/session': session,
  'POST /api/v1/session': signedIn,
  'DELETE /api/v1/session': fields({}),
};
