import { fields, flag, text, time, type ValueOf } from '../../base/shape.ts';
import { entries } from '../listing/shapes.ts';

const overrideFields = {
  /** The entries that it is set for: without ids of the request, for example. */
  entries,
  /** `block`, `exempt` or a limit. */
  effect: text,
  until: time,
  by: text,
  reason: text,
};

const wildcard = {
  /** Each value that ends in `*` stands for all values that begin with what precedes the `*`. */
  wildcard: flag,
};

/** An operator's override, for a descriptor to which it applies. */
export const shownOverride = fields(overrideFields, wildcard);
export type ShownOverride = ValueOf<typeof shownOverride>;

const listedFields = {
  domain: text,
  /** `user=alice,path=/login`. */
  descriptor: text,
  ...overrideFields,
};

/** An operator's override of one descriptor, or of several. */
export const listedOverride = fields(listedFields, wildcard);
export type ListedOverride = ValueOf<typeof listedOverride>;

/** An override that has just been set. */
export const setOverride = fields(listedFields, {
  ...wildcard,
  /** Why it has no effect at present. */
  warning: text,
});
export type SetOverride = ValueOf<typeof setOverride>;
