import { fields, listOf, oneOf, text, time, type ValueOf } from '../../base/shape.ts';
import { entries } from '../../edge/listing/shapes.ts';

/** What may be wrong with the configuration of a proxy. */
export const findingKinds = [
  'call_without_descriptors',
  'check_without_charge',
  'release_without_acquire',
  'descriptor_missing_at_proxy',
  'placeholder_values',
  'cardinality_jump',
  'hits_beyond_bound',
  'many_new_children',
  'reservations_lapsed',
  'undecided',
] as const;
export type FindingKind = (typeof findingKinds)[number];

/** A likely mistake in the configuration of a proxy. */
const finding = fields(
  {
    kind: oneOf(...findingKinds),
    since: time,
    confirmed: time,
    /** Name of the proxy: a header that it sends, or its address. */
    proxy: text,
    problem: text,
    /** The likely line of configuration. */
    configuration: text,
    /** Entries of a request. */
    example: entries,
  },
  {
    domain: text,
    /** Path of the rule. */
    rule: text,
    /** Address and port of a connection of the proxy. */
    connection: text,
  },
);
export type ListedFinding = ValueOf<typeof finding>;

export const findingAnswers = { 'GET /api/v1/findings': fields({ findings: listOf(finding) }) };
