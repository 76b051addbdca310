import {
  type AnswerSchema,
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
export const counters: AnswerSchema = {
  oneOf: [
    fields(
      { domain: text, entries, counters: listOf(counterWith(counter, { ...place, name: text })) },
      { override: standingOverride },
    ),
    fields({ looked: whole, counters: listOf(counterWith({ domain: text, entries })) }, { next: text }),
  ],
};

export const changedCounters = fields(
  {
    domain: text,
    entries,
    counters: listOf(counterWith({ ...counter, before: counterState }, { ...place, name: text })),
  },
  { override: standingOverride },
);

const ofOverride = { domain: text, descriptor: text, entries, effect: text, until: time, by: text, reason: text };
export const override = fields(ofOverride);
export const setOverride = fields(ofOverride, { warning: text });

export const overrides = fields({ overrides: listOf(override) });

export const audit = fields({
  changes: listOf(
    fields(
      { at: time, who: text, change: text, reason: text, what: { type: 'object' } },
      { before: whatever, after: whatever, failed: text },
    ),
  ),
});

export const recording = fields({ recording: flag, until: orNull(time) });

export const signedIn = fields({ name: text, role: oneOf('read', 'operate'), csrf: text });

export const session = fields(
  { version: text, name: text, needsToken: flag, hashKeys: flag },
  { role: oneOf('read', 'operate'), grpcPort: whole, hasQuotas: flag, hasSites: flag, csrf: text },
);
