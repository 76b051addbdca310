/**
 * The rule file format, in one place: every block of a file, its keys, what each holds and means. The reader checks
 * files against it. The keys are those of envoyproxy/ratelimit unless marked `own`.
 */
export const format = {
  file: {
    domain: { type: 'text', meaning: 'whose rules these are: what callers send as `domain`' },
    descriptors: { type: 'list', of: 'node', meaning: 'the first level of the rule tree' },
  },
  node: {
    key: { type: 'text', meaning: 'the key of the entry that this node matches; `*` in it matches any text' },
    value: { type: 'text', meaning: 'the value that it matches; `*` in it matches any text; absent: any value' },
    rate_limit: { type: 'block', of: 'rate_limit', meaning: 'the limit; absent: what ends here is not limited' },
    descriptors: { type: 'list', of: 'node', meaning: 'the next level of the rule tree' },
    shadow_mode: { type: 'flag', meaning: 'counts, but answers OK when over the limit' },
    quota_mode: { type: 'flag', meaning: 'refuses only when all quota rules of a request are over their limits' },
    share_threshold: { type: 'flag', meaning: 'all values that the `*` matches share one counter' },
    detailed_metric: { type: 'flag', meaning: 'statistics under every key and value of the descriptor' },
    value_to_metric: { type: 'flag', meaning: 'statistics under the value that was matched' },
    metadata: { type: 'struct', meaning: 'returned with the answer' },
  },
  rate_limit: {
    unit: { type: 'text', meaning: 'second, minute, hour, day, week, month (30 days) or year (365 days)' },
    requests_per_unit: { type: 'count', meaning: 'hits that pass in one unit, 0 to 4294967295; absent: 0' },
    unlimited: { type: 'flag', meaning: 'everything passes and nothing is counted; instead of a unit' },
    name: { type: 'text', meaning: 'shown to callers, and the handle for `replaces`' },
    replaces: { type: 'list', of: 'replaces', meaning: 'limits of the same request that this one makes void' },
    algorithm: { type: 'text', own: true, meaning: 'fixed_window (the default)' },
  },
  replaces: {
    name: { type: 'text', meaning: 'the `name` of the limit that is made void' },
  },
} as const satisfies Record<string, Record<string, Field>>;

/** What a key holds. `count` is a whole number from 0 to 4294967295, `struct` any mapping. */
export type Field = { readonly meaning: string; readonly own?: boolean } & (
  | { readonly type: 'text' | 'count' | 'flag' | 'struct' }
  | { readonly type: 'list' | 'block'; readonly of: string }
);

export type Shape = keyof typeof format;
