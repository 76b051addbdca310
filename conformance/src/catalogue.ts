import type { Profile } from './case.ts';

const RATELIMIT = 'https://github.com/envoyproxy/ratelimit/blob/main';

/** What specifies the behaviour of cases. */
const sources = {
  api: 'https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ratelimit/v3/rls.proto',
  descriptor: 'https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/common/ratelimit/v3/ratelimit.proto',
  readme: `${RATELIMIT}/README.md`,
  config: `${RATELIMIT}/src/config/config_impl.go`,
  service: `${RATELIMIT}/src/service/ratelimit.go`,
  limiter: `${RATELIMIT}/src/limiter/base_limiter.go`,
  keys: `${RATELIMIT}/src/limiter/cache_key.go`,
  redis: `${RATELIMIT}/src/redis/fixed_cache_impl.go`,
  json: `${RATELIMIT}/src/server/server_impl.go`,
  runner: `${RATELIMIT}/src/service_cmd/runner/runner.go`,
  health: 'https://github.com/grpc/grpc/blob/master/doc/health-checking.md',
  yaml: 'https://yaml.org/type/',
} as const;

/** A recorded case of a profile, found by the beginning of its name in the corpus. */
export interface Entry {
  readonly recorded: string;
  readonly profile: Profile;
  readonly why: string;
  readonly source: string;
}

type Row = readonly [recorded: string, why: string, source: keyof typeof sources];

const entries = (profile: Profile, rows: readonly Row[]): readonly Entry[] =>
  rows.map(([recorded, why, source]) => ({ recorded, profile, why, source: sources[source] }));

const protocol = entries('protocol', [
  ['025 ', 'A proxy with a domain that nobody configured must not refuse traffic.', 'service'],
  ['026 ', 'A proxy may send a descriptor that became empty; it must not shift the other statuses.', 'config'],
  ['027 ', 'What no rule mentions is not limited.', 'config'],
  ['093 ', 'Statuses answer descriptors by position, so each needs one, whether limited or not.', 'api'],
  ['081 ', 'A request is refused if any of its limits is exceeded, and each status says which.', 'service'],
  ['066 ', 'The request after the last one that fits is the first to be refused.', 'limiter'],
  ['067 ', 'A limit of 0 blocks everything.', 'limiter'],
  ['069 ', '0 is the default of a protobuf number: a caller that sets no hits means one.', 'api'],
  ['070 ', 'Hits of a descriptor override those of the request, and 0 only looks.', 'descriptor'],
  [
    '070b ',
    'Each descriptor may have its own hits, so that a cost counts for one limit and requests for another.',
    'descriptor',
  ],
  ['070c ', 'A check without hits says whether the limit is exceeded, and changes nothing.', 'service'],
  ['070d ', 'The largest number of hits must not wrap around to few.', 'api'],
  ['088 ', 'The same descriptor twice in a request counts twice.', 'redis'],
  ['080 ', 'The remaining hits count down to 0, and stay there.', 'limiter'],
  [
    '092 ',
    'A request without domain or descriptors is a mistake of its caller, and an error instead of OK.',
    'service',
  ],
  ['125 ', 'Load balancers and Kubernetes probe the health service by name.', 'health'],
]);

const semantics = entries('semantics', [
  ['010 ', 'A null limit is a whitelist in existing rule files.', 'config'],
  ['011 ', 'Units are written in any letter case.', 'config'],
  ['012 ', 'Weeks, months of 30 days and years of 365 days are units.', 'readme'],
  ['012b ', 'A window of a second begins with the second of the clock.', 'limiter'],
  ['014 ', 'Unlimited rules in existing files have units that are not read.', 'config'],
  ['016e ', 'Rule files share blocks by anchors and aliases.', 'yaml'],
  ['017 ', 'shadow_mode inside rate_limit has no effect in existing files, and must not get one.', 'config'],
  ['021 ', 'Values such as 404, true or 010 are texts, whatever YAML thinks.', 'config'],
  ['021c ', 'requests_per_unit may be written as YAML 1.1 writes integers.', 'yaml'],
  ['022b ', 'A shared limit may have its wildcard in the key.', 'readme'],
  ['C2 ', 'Only the first document of a file counts; a second one must not add limits silently.', 'config'],
  ['C3 ', 'Without requests_per_unit a limit is 0: it blocks, and does not admit everything.', 'config'],
  ['C6 ', 'Two rules may have the same name.', 'config'],
  ['028 ', 'The most specific rule of a tree applies.', 'readme'],
  ['029 ', 'An exact value takes precedence over the key alone.', 'readme'],
  ['030 ', 'A rule with a key alone has a counter for each value.', 'readme'],
  ['031 ', 'A rule with a value applies to that value alone.', 'readme'],
  ['032 ', 'A value without a limit is exempt, although its key has a limit.', 'readme'],
  ['033 ', 'A descriptor that is longer than the rule does not match it.', 'config'],
  ['034 ', 'A node may have a limit and children.', 'config'],
  ['035 ', "A parent's limit does not stand in for a missing child.", 'config'],
  ['036 ', "A child's limit replaces its parent's.", 'config'],
  ['037 ', 'An exact node hides its siblings, even if nothing below it matches.', 'config'],
  ['038 ', 'The branch of the key alone is taken if no value matches.', 'config'],
  ['039 ', 'The order of entries is part of a descriptor.', 'readme'],
  ['040 ', 'Keys are case-sensitive.', 'config'],
  ['042 ', 'Callers read the name of the rule from the answer.', 'api'],
  ['043 ', 'An unlimited rule answers OK with the largest remaining number.', 'service'],
  ['044 ', 'A wildcard has a counter for each value.', 'readme'],
  ['045 ', 'An exact value takes precedence over a wildcard.', 'config'],
  ['046 ', 'Of several wildcards the first in the file applies.', 'config'],
  ['047 ', 'A wildcard takes precedence over the key alone.', 'config'],
  ['051 ', 'Wildcards work at every level.', 'config'],
  ['052 ', 'With share_threshold all values of a wildcard share one limit.', 'readme'],
  ['053 ', 'Without share_threshold each value has its own limit.', 'readme'],
  ['058d ', 'The same key at two levels has two counters.', 'keys'],
  ['059 ', 'A limit in the request cannot create a domain.', 'service'],
  ['062 ', 'A limit in the request applies without a rule.', 'descriptor'],
  ['063 ', 'A limit in the request replaces an unlimited rule.', 'config'],
  ['065 ', 'The unit of a limit in the request has numbers that differ from the names of rule files.', 'descriptor'],
  ['065b ', 'A limit in the request may have every unit.', 'descriptor'],
  ['065c ', 'A limit in the request counts on the counter of the rule that it replaces.', 'config'],
  ['065d ', 'A limit in the request does not inherit shadow or quota mode.', 'config'],
  ['065e ', 'Limits of 0 and of the largest number are valid in requests.', 'descriptor'],
  ['068 ', 'A check without hits passes a limit of 0.', 'limiter'],
  ['094 ', 'A rule in shadow mode counts, and never refuses.', 'readme'],
  ['095 ', 'A rule in shadow mode does not save a request from the others.', 'service'],
  ['113 ', 'A rule that replaces others applies alone only if its descriptor is sent.', 'readme'],
  ['114 ', 'A replaced rule is not counted.', 'readme'],
  ['115 ', 'An unlimited rule may replace a limit.', 'readme'],
  ['116 ', 'Two rules that replace each other both vanish.', 'service'],
  ['116b ', 'A chain of replacements drops all but the last.', 'service'],
]);

const recent = entries('recent', [
  ['049 ', 'A wildcard may be in the middle of a value.', 'readme'],
  ['050 ', 'A value may have several wildcards.', 'config'],
  ['051c ', 'The parts around a wildcard must not overlap in the value.', 'config'],
  ['097 ', 'A request whose quotas are all used up is refused.', 'service'],
  ['098 ', 'One quota that is left lets a request pass.', 'service'],
  ['099 ', 'A quota that is used up refuses, although an ordinary limit has room.', 'service'],
  ['100 ', 'An ordinary limit refuses, whatever quotas are left.', 'service'],
  ['103 ', 'Quotas are used up one after the other.', 'service'],
  ['104 ', 'Callers check first and debit later: the check must not count.', 'service'],
]);

const reload = entries('reload', [
  ['001 ', 'A file that is no YAML must not end limits that are in force.', 'runner'],
  ['002d ', 'A domain needs a name.', 'config'],
  ['003 ', 'Two files for one domain would hide rules of each other.', 'config'],
  ['006 ', 'A node without a key matches nothing that anyone meant.', 'config'],
  ['007 ', 'Of two equal nodes one would be ignored.', 'config'],
  ['008 ', 'A mistyped unit must not become another one.', 'config'],
  ['013 ', 'A limit is unlimited or has a unit.', 'config'],
  ['016 ', 'A mistyped key must be an error: else the limit is missing.', 'config'],
  ['019 ', 'A list of texts is no list of rules.', 'config'],
  ['022 ', 'share_threshold needs a wildcard.', 'config'],
  ['E2a ', 'A negative limit is a mistake.', 'config'],
  ['126 ', 'Rules stay in force while a file is broken, and change when it is mended.', 'service'],
  ['128 ', 'Files are added, changed and deleted without a restart.', 'readme'],
]);

const json = entries('json', [
  ['117 ', 'A body that is no request is a 400, so that a caller sees its mistake.', 'json'],
  ['119 ', 'The response has the names of the JSON mapping of protobuf.', 'readme'],
  ['120 ', 'A refusal is a 429: scripts look at the status alone.', 'readme'],
  ['122b ', 'Both spellings of names are valid in JSON of protobuf.', 'json'],
]);

const statistics = entries('statistics', [
  ['025 ', 'Operators find misconfigured proxies by unknown domains.', 'readme'],
  ['030 ', 'All values of a key share one name in statistics: there may be millions.', 'readme'],
  ['031 ', 'An exact value is part of the name.', 'readme'],
  ['044 ', 'A wildcard has the pattern in its name, not the values.', 'readme'],
  ['056 ', 'value_to_metric puts the value into the name.', 'readme'],
  ['058 ', 'detailed_metric puts all values into the name.', 'readme'],
  ['066 ', 'Hits are counted as within, near and over the limit; alerts depend on them.', 'readme'],
  ['081 ', 'Each limit of a request has its own statistics.', 'limiter'],
  ['094 ', 'shadow_mode counts what would have been refused: the reason to use it.', 'readme'],
  ['114 ', 'A replaced rule has no statistics.', 'readme'],
]);

/** The recorded cases of all profiles. */
export const catalogue: readonly Entry[] = [...protocol, ...semantics, ...recent, ...reload, ...json, ...statistics];
