import { anyOf, fields, flag, listOf, text, type ValueOf, whole } from '../../base/shape.ts';
import { shownOverride } from '../../edge/http/shapes.ts';
import { algorithm, entries, placeFields } from '../../edge/listing/shapes.ts';
import { counterState, holdFields, sharedChild, stateFields } from '../lab/answers/counters.ts';

/** The rule of a counter, its limit such as `5 per minute`, and its state. */
const counterFields = { rule: text, limit: text, algorithm, ...stateFields };
const ofDescriptor = { ...counterFields, counter: text };
const named = {
  ...placeFields,
  name: text,
  ...holdFields,
  /** Children of a shared limit that rules name. */
  children: listOf(sharedChild),
};

const listedCounter = fields({ ...counterFields, domain: text, entries }, holdFields);
export type ListedCounter = ValueOf<typeof listedCounter>;

/** A page of all counters. */
const listedCounters = fields(
  {
    /** The number of counters examined. */
    looked: whole,
    counters: listOf(listedCounter),
  },
  { next: text },
);
export type ListedCounters = ValueOf<typeof listedCounters>;

const descriptorCounters = fields(
  { domain: text, entries, counters: listOf(fields(ofDescriptor, named)) },
  { override: shownOverride },
);
export type DescriptorCounters = ValueOf<typeof descriptorCounters>;

const changedCounters = fields(
  { domain: text, entries, counters: listOf(fields({ ...ofDescriptor, before: counterState }, named)) },
  { override: shownOverride },
);
export type ChangedCounters = ValueOf<typeof changedCounters>;

export const counterAnswers = {
  'GET /api/v1/overrides/preview': fields({ counters: whole, isAtLeast: flag, examples: listOf(text) }),
  'GET /api/v1/counters': anyOf(descriptorCounters, listedCounters),
  'POST /api/v1/counters/reset': changedCounters,
  'POST /api/v1/counters/grant': changedCounters,
};
