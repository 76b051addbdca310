import {
  anyObject,
  anything,
  fields,
  flag,
  type JsonShape,
  listOf,
  mapOf,
  number,
  oneOf,
  onlyTrue,
  openFields,
  text,
  type ValueOf,
  whole,
} from '../../base/shape.ts';
import { namedAlgorithms } from '../../engine/holds/limits.ts';
import { type Entry, type StopReason, stopReasons } from '../../engine/rules/match/match.ts';

const entry: JsonShape<Entry> = fields({ key: text, value: text });
export const entries = listOf(entry);

export const algorithm = oneOf(...namedAlgorithms);

/** Place of a rule; absent if it is in no file. */
export const placeFields = { file: text, line: whole };

/** A rule that a descriptor nearly matched. */
const nearRule = fields(
  {
    rule: text,
    descriptor: entries,
  },
  placeFields,
);
export type NearRule = ValueOf<typeof nearRule>;

export const stopReason = oneOf(...(Object.keys(stopReasons) as StopReason[])); // it has no other keys

/** Why a search ended without a rule. */
export const stop = fields({
  /** The level on which no node was found, from 1; 0 for the domain. */
  level: whole,
  reason: stopReason,
  why: text,
  nearest: listOf(nearRule),
});
export type Stop = ValueOf<typeof stop>;

/** A node that the search considered on a level. */
const candidate = fields(
  { key: text, kind: oneOf('exact', 'addresses', 'wildcard', 'any_value'), matched: flag },
  {
    /** Value of the entry; absent for any value. */
    value: text,
    reason: oneOf(
      'no_such_key',
      'value_differs',
      'address_outside',
      'wildcard_fails',
      'earlier_wildcard_won',
      'longer_block_won',
      'more_specific_won',
    ),
    /** For `wildcard_fails`: the offset in the key or the value at which the text stops matching. */
    offset: whole,
    of: oneOf('key', 'value'),
  },
);
export type Candidate = ValueOf<typeof candidate>;

/** One step down the tree. */
export const tracedLevel = fields({
  level: whole,
  entry,
  /** The nodes that were tried, in order, then a few others, the nearest first. */
  tried: listOf(candidate),
  /** The number of nodes of the level that are not listed. */
  more: whole,
});
export type TracedLevel = ValueOf<typeof tracedLevel>;

/** The place of each property that an overlay set. */
const overlaid = mapOf(fields({}, placeFields));

export const domainJson = fields({ name: text }, { spend: text, overlaid });
export type DomainJson = ValueOf<typeof domainJson>;

/** A limit with the keys of rule files; the further ones depend on its algorithm. */
const limitJson = openFields(
  {
    algorithm,
    window_ms: number,
    requests_per_unit: number,
    soft: number,
    shadow_mode: flag,
    quota_mode: flag,
    on_store_failure: text,
    consistency: text,
  },
  {
    name: text,
    active: text,
    /** What its hits are: slots of requests in flight, or what is allocated until it is given back; absent: they pass. */
    counts: oneOf('slots', 'allocated'),
    unit: text,
    unit_multiplier: whole,
    on_overload: text,
    local_share: whole,
    /** `500.00 USD`; requests_per_unit then counts billionths. */
    budget: text,
    burst: whole,
    charge: text,
    on_change: text,
    overlaid,
  },
);

export type LimitJson = ValueOf<typeof limitJson>;

const ruleFields = { domain: text, path: text, limits: listOf(limitJson) };
const ruleOptions = {
  ...placeFields,
  unlimited: onlyTrue,
  shadow_mode: flag,
  quota_mode: flag,
  replaces: listOf(text),
  named: oneOf('by_levels', 'by_request'),
  not_counted: listOf(fields({ entry: whole, as: text })),
  /** The entries whose values share a counter, from 1. */
  share_threshold: listOf(whole),
  /** Of one hit: `0.0000025 USD`. */
  unit_cost: text,
  charged_later: onlyTrue,
  count_when: text,
  match: oneOf('any_order'),
  response: fields({ content_type: text }, { body: text, headers: mapOf(text) }),
  metadata: anything,
  overlaid,
  times: listOf(listOf(anyObject)),
};

/** A rule with the keys of rule files. */
export const ruleJson = fields(ruleFields, ruleOptions);
export type RuleJson = ValueOf<typeof ruleJson>;

/** The same, as it is now. */
export const listedRule = fields(
  { ...ruleFields, levels: listOf(text) },
  {
    ...ruleOptions,
    /** The indexes of the limits that apply now, and when others will. */
    schedule: fields({ now: listOf(whole) }, { changes_at_ms: number }),
  },
);
export type ListedRule = ValueOf<typeof listedRule>;
