import '../../helpers/realm.ts';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { type LoadedRules, loadRules } from '../../../src/engine/rules/reload/load.ts';

const FIXTURES = fileURLToPath(new URL('./fixtures/', import.meta.url));

/** The list of algorithms in messages. */
const ALGORITHMS =
  'fixed_window, sliding_window_log, sliding_window_counter, sliding_window_buckets, token_bucket, leaky_bucket, in_flight, allocation';
const UNITS = 'second, minute, hour, day, week, month, year';

const NO_REQUESTS = 'without requests_per_unit the limit is 0 and refuses every hit; if this is intended, write 0';

/** The message for each broken file. Each file has one error. */
const messages: Readonly<Record<string, string>> = {
  'star-not-quoted.yaml':
    '4: error loading config file: name of an alias node must contain at least one character; put a value that begins with * in quotes: "*"',
  'unknown-anchor.yaml': `4: error loading config file: unknown anchor 'per_minute' referenced; if the text is meant, put it in quotes: "*per_minute"`,
  'merge-of-no-mapping.yaml': '3: error loading config file: map merge requires map or sequence of maps as the value',
  'alias-bomb.yaml': '10: error loading config file: the file holds more than 1000000 values, aliases written out',
  'root-is-a-list.yaml': '1: error loading config file: expected a mapping, got a list',
  'key-is-no-text.yaml': '4: descriptors[0]: config error, key is not of type string: true; put the key in quotes',
  'unknown-key.yaml': "4: descriptors[0].ratelimit: config error, unknown key 'ratelimit'; did you mean 'rate_limit'?",
  'unknown-key-of-the-file.yaml':
    "1: x-limits: config error, unknown key 'x-limits'; expected one of domain, descriptors, spend, require",
  'unknown-key-of-a-limit.yaml':
    "6: descriptors[0].rate_limit.requestsPerUnit: config error, unknown key 'requestsPerUnit'; did you mean 'requests_per_unit'?",
  'unknown-key-of-replaces.yaml':
    "9: descriptors[0].rate_limit.replaces[0].unit_of_time: config error, unknown key 'unit_of_time'; expected one of name",
  'descriptors-is-no-list.yaml': '3: descriptors: error loading config file: expected a list, got a mapping',
  'descriptor-is-no-mapping.yaml':
    '4: descriptors[1]: config error, yaml file contains list of type other than map: address',
  'rate-limit-is-no-mapping.yaml':
    "4: descriptors[0].rate_limit: error loading config file: expected a mapping, got the number '5'",
  'text-is-a-list.yaml': '4: descriptors[0].value: error loading config file: expected text, got a list',
  'text-is-a-fraction.yaml':
    '4: descriptors[0].value: error checking config: expected text, got the number \'1.5\'; put it in quotes: "1.5"',
  'flag-is-text.yaml':
    "4: descriptors[0].shadow_mode: error loading config file: expected true or false, got the text 'true'",
  'count-is-quoted.yaml':
    "6: descriptors[0].rate_limit.requests_per_unit: error loading config file: expected a whole number from 0 to 9007199254740990, not in quotes, got the text '5'",
  'count-is-negative.yaml':
    "6: descriptors[0].rate_limit.requests_per_unit: error loading config file: expected a whole number from 0 to 9007199254740990, not in quotes, got the number '-1'",
  'count-is-too-large.yaml':
    "6: descriptors[0].rate_limit.requests_per_unit: error loading config file: expected a whole number from 0 to 9007199254740990, not in quotes, got the number '9007199254740991'",
  'count-is-a-fraction.yaml':
    "6: descriptors[0].rate_limit.requests_per_unit: error checking config: expected a whole number from 0 to 9007199254740990, not in quotes, got the number '5.0'",
  'metadata-is-text.yaml':
    "4: descriptors[0].metadata: error loading config file: expected a mapping, got the text 'team-a'",
  'no-domain.yaml': '1: domain: config file cannot have empty domain: expected a name, got nothing',
  'no-key.yaml': '3: descriptors[0].key: descriptor has empty key: expected a name such as user, got nothing',
  'same-node-twice.yaml':
    "8: descriptors[0].descriptors[2].key: duplicate descriptor composite key 'demo.user.path_/login'; an earlier descriptor has the same one",
  'addresses-invalid.yaml':
    "6: descriptors[0].addresses: invalid address block '10.0.0.300': expected a block of IP addresses such as 10.0.0.0/8, 2001:db8::/32 or 10.0.0.1",
  'addresses-beyond-the-prefix.yaml':
    "4: descriptors[0].addresses: invalid address block '10.1.2.3/8': its address has bits beyond /8: write 10.0.0.0/8 for the block, or 10.1.2.3 for the address",
  'addresses-empty.yaml':
    '4: descriptors[0].addresses: error loading config file: expected at least one text, got a list',
  'addresses-and-value.yaml':
    '5: descriptors[0].addresses: value and addresses are mutually exclusive: remove one of them',
  'addresses-of-many-keys.yaml': "4: descriptors[0].addresses: addresses require a key without '*', got 'ip*'",
  'addresses-not-counted.yaml':
    '4: descriptors[0].addresses: not_counted and addresses are mutually exclusive: remove one of them',
  'same-block-twice.yaml':
    "6: descriptors[1].key: duplicate descriptor composite key 'demo.ip_192.0.2.1'; an earlier descriptor has the same one",
  'same-block-and-value.yaml':
    "6: descriptors[1].key: duplicate descriptor composite key 'demo.ip_192.0.2.1'; an earlier descriptor has the same one",
  'share-threshold-without-wildcard.yaml':
    "5: descriptors[0].share_threshold: share_threshold can only be used with wildcard values (containing '*'), but found key 'path_/login'",
  'unknown-algorithm.yaml': `7: descriptors[0].rate_limit.algorithm: unknown algorithm 'sliding_window'; expected one of ${ALGORITHMS}`,
  'window-when-unlimited.yaml':
    '7: descriptors[0].rate_limit.window: window cannot be used when unlimited: remove one of them',
  'unlimited-with-unit.yaml':
    '6: descriptors[0].rate_limit.unit: should not specify rate limit unit when unlimited: remove one of them',
  'unknown-unit.yaml': `5: descriptors[0].rate_limit.unit: invalid rate limit unit 'minutes'; did you mean 'minute'?`,
  'no-unit.yaml': `5: descriptors[0].rate_limit.unit: invalid rate limit unit ''; expected one of ${UNITS}, or a window`,
  'replaces-nothing.yaml':
    "8: descriptors[0].rate_limit.replaces[0].name: should not have an empty replaces entry: expected the name of another limit, got ''",
  'replaces-itself.yaml':
    "9: descriptors[0].rate_limit.replaces[0].name: replaces should not contain name of same descriptor: expected the name of another limit, got 'per-user'",
  'alignment-with-a-sliding-window.yaml':
    '8: descriptors[0].rate_limit.alignment: alignment: calendar requires fixed_window; use epoch, or { anchor, timezone }',
  'buckets-do-not-divide.yaml':
    '8: descriptors[0].rate_limit.buckets: buckets must be 1 to 100 and divide the window of 60000 ms, got 7',
  'buckets-with-a-token-bucket.yaml':
    '8: descriptors[0].rate_limit.buckets: buckets cannot be used with token_bucket, only with sliding_window_buckets',
  'burst-is-zero.yaml': '8: descriptors[0].rate_limit.burst: burst must be at least 1, got 0',
  'burst-not-exact.yaml':
    '8: descriptors[0].rate_limit.burst: hits times milliseconds of the window must stay below 2^53 to be exact, got 135446088646656000000; take a smaller limit or window',
  'burst-of-a-leaky-bucket-is-zero.yaml': '8: descriptors[0].rate_limit.burst: burst must be at least 1, got 0',
  'burst-on-a-node.yaml': `4: descriptors[0].burst: config error, unknown key 'burst'; it goes into rate_limit`,
  'burst-with-a-window.yaml':
    '7: descriptors[0].rate_limit.burst: burst cannot be used with fixed_window, only with token_bucket or leaky_bucket',
  'calendar-of-an-odd-window.yaml':
    '7: descriptors[0].rate_limit.alignment: alignment: calendar goes with one unit: hour, day, week, month, year; got 1 × unknown',
  'calendar-of-minutes.yaml':
    '7: descriptors[0].rate_limit.alignment: alignment: calendar goes with one unit: hour, day, week, month, year; got 1 × minute',
  'calendar-of-two-days.yaml':
    '8: descriptors[0].rate_limit.alignment: alignment: calendar goes with one unit: hour, day, week, month, year; got 2 × day',
  'count-denied-with-buckets.yaml':
    '9: descriptors[0].rate_limit.count_denied: count_denied cannot be used with sliding_window_buckets, only with sliding_window_log',
  'counter-not-exact.yaml':
    '6: descriptors[0].rate_limit.requests_per_unit: hits times milliseconds of the window must stay below 2^53 to be exact, got 135446088615120000000; take a smaller limit or window',
  'leaky-bucket-not-exact.yaml':
    '6: descriptors[0].rate_limit.requests_per_unit: hits times milliseconds of the window must stay below 2^53 to be exact, got 135446088615120000000; take a smaller limit or window',
  'log-too-long-by-soft.yaml':
    '6: descriptors[0].rate_limit.requests_per_unit: a sliding_window_log remembers at most 1000 hits (soft ones included), got 1001',
  'log-too-long.yaml':
    '6: descriptors[0].rate_limit.requests_per_unit: a sliding_window_log remembers at most 1000 hits (soft ones included), got 1001',
  'max-delay-is-no-time.yaml':
    "8: descriptors[0].rate_limit.max_delay: max_delay must be a time such as 300ms or 2s, up to 1h, got '0.3s'",
  'max-delay-with-a-window.yaml':
    '8: descriptors[0].rate_limit.max_delay: max_delay cannot be used with sliding_window_counter, only with token_bucket or leaky_bucket',
  'max-delay-with-soft.yaml':
    '9: descriptors[0].rate_limit.max_delay: max_delay and soft are mutually exclusive: remove one of them',
  'no-buckets.yaml':
    '5: descriptors[0].rate_limit.buckets: buckets must be 1 to 100 and divide the window of 60000 ms, got nothing',
  'no-requests-with-a-leaky-bucket.yaml':
    '5: descriptors[0].rate_limit.requests_per_unit: requests_per_unit must be at least 1 with leaky_bucket, got 0',
  'no-requests-with-a-token-bucket.yaml':
    '6: descriptors[0].rate_limit.requests_per_unit: requests_per_unit must be at least 1 with token_bucket, got 0',
  'rate-limit-and-rate-limits.yaml':
    '5: descriptors[0].rate_limits: rate_limit and rate_limits are mutually exclusive: remove one of them',
  'rate-limits-is-a-mapping.yaml':
    '4: descriptors[0].rate_limits: error loading config file: expected a list, got a mapping',
  'rate-limits-is-empty.yaml': '4: descriptors[0].rate_limits: rate_limits must hold 1 to 16 limits, got 0',
  'rate-limits-too-many.yaml': '4: descriptors[0].rate_limits: rate_limits must hold 1 to 16 limits, got 17',
  'refill-with-a-leaky-bucket.yaml':
    '8: descriptors[0].rate_limit.refill: refill cannot be used with leaky_bucket, only with token_bucket',
  'charge-with-a-log.yaml':
    '8: descriptors[0].rate_limit.charge: charge cannot be used with sliding_window_log, only with fixed_window or sliding_window_counter or sliding_window_buckets or token_bucket or leaky_bucket',
  'charge-with-leases.yaml':
    '7: descriptors[0].rate_limit.charge: charge: always and consistency: leased are mutually exclusive: remove one of them',
  'unknown-charge.yaml': "7: descriptors[0].rate_limit.charge: charge must be accepted or always, got 'never'",
  'rounding-with-a-log.yaml':
    '8: descriptors[0].rate_limit.rounding: rounding cannot be used with sliding_window_log, only with sliding_window_counter',
  'spend-on-a-node.yaml': `4: descriptors[0].spend: config error, unknown key 'spend'; it goes into the file itself`,
  'timezone-with-a-token-bucket.yaml':
    '8: descriptors[0].rate_limit.timezone: timezone cannot be used with token_bucket, only with fixed_window',
  'timezone-with-another-alignment.yaml':
    '8: descriptors[0].rate_limit.timezone: timezone goes with alignment: calendar, not with first_hit',
  'timezone-without-alignment.yaml':
    '7: descriptors[0].rate_limit.timezone: timezone goes with alignment: calendar, not with epoch',
  'token-bucket-not-exact.yaml':
    '6: descriptors[0].rate_limit.requests_per_unit: hits times milliseconds of the window must stay below 2^53 to be exact, got 15461882262000000; take a smaller limit or window',
  'too-many-buckets.yaml':
    '8: descriptors[0].rate_limit.buckets: buckets must be 1 to 100 and divide the window of 86400000 ms, got 120',
  'unit-and-window.yaml':
    '7: descriptors[0].rate_limit.window: window and unit are mutually exclusive: remove one of them',
  'unit-multiplier-and-window.yaml':
    '5: descriptors[0].rate_limit.unit_multiplier: unit_multiplier goes with unit, not with window',
  'unit-multiplier-is-zero.yaml':
    '6: descriptors[0].rate_limit.unit_multiplier: unit_multiplier must make a window of 1 unit to 100 years, got 0',
  'unit-multiplier-too-long.yaml':
    '6: descriptors[0].rate_limit.unit_multiplier: unit_multiplier must make a window of 1 unit to 100 years, got 101',
  'unknown-alignment.yaml':
    "7: descriptors[0].rate_limit.alignment: alignment must be epoch or first_hit or calendar, got 'clock'",
  'unknown-refill.yaml': "8: descriptors[0].rate_limit.refill: refill must be continuous or interval, got 'steady'",
  'unknown-rounding.yaml': "8: descriptors[0].rate_limit.rounding: rounding must be down or up, got 'nearest'",
  'unknown-spend.yaml': "2: spend: spend must be one of each, all_or_nothing, spare_others, got 'nothing'",
  'unknown-time-zone.yaml':
    "8: descriptors[0].rate_limit.timezone: timezone must be a name of the IANA database such as Europe/Berlin, got 'Europe/Bern'",
  'unlimited-among-rate-limits.yaml':
    '6: descriptors[0].rate_limits[1].unlimited: unlimited cannot be used beside other limits: remove one of them',
  'window-is-no-length.yaml':
    "5: descriptors[0].rate_limit.window: window must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got 'half an hour'",
  'window-is-zero.yaml':
    "5: descriptors[0].rate_limit.window: window must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '0s'",
  'window-too-long.yaml':
    "5: descriptors[0].rate_limit.window: window must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '36501d'",
  'in-flight-without-ttl.yaml':
    '5: descriptors[0].rate_limit.ttl: in_flight requires a ttl longer than any request lasts: after that time a slot is free again',
  'in-flight-local.yaml':
    '8: descriptors[0].rate_limit.on_store_failure: on_store_failure: local cannot be used with in_flight: another process may get the release; use error, allow or deny',
  'in-flight-too-many-slots.yaml':
    '5: descriptors[0].rate_limit.requests_per_unit: in_flight with ids has at most 1000 slots (soft ones included), got 1001; without not_counted: hold it may have more',
  'ttl-too-long.yaml':
    "7: descriptors[0].rate_limit.ttl: ttl must be a time such as 30s or 5m, from 100ms to 1d, got '2d'",
  'ttl-and-unit.yaml': '8: descriptors[0].rate_limit.unit: unit cannot be used with in_flight, which has a ttl',
  'ttl-with-a-window.yaml':
    '7: descriptors[0].rate_limit.ttl: ttl cannot be used with fixed_window, only with in_flight',
  'not-counted-unknown.yaml':
    "4: descriptors[0].not_counted: not_counted must be hold or trace or priority or commit, got 'id'",
  'not-counted-of-one-value.yaml':
    "5: descriptors[0].not_counted: not_counted: hold requires a node without a fixed value, since each request has its own id, got 'a'",
  'not-counted-of-many-keys.yaml':
    "4: descriptors[0].not_counted: not_counted: hold requires a key without '*', got 'id*'",
  'not-counted-and-shared.yaml':
    '6: descriptors[0].not_counted: not_counted: hold and share_threshold are mutually exclusive: remove one of them',
  'not-counted-twice.yaml':
    '7: descriptors[0].descriptors[0].not_counted: not_counted: hold is already set on a node above',
  'reserve-without-id.yaml':
    '7: descriptors[0].rate_limit.reserve: reserve requires the id of the request: put not_counted: hold on this node or one above',
  'reserve-ttl-too-long.yaml':
    "8: descriptors[0].rate_limit.reserve.ttl: ttl must be a time such as 60s or 5m, from 100ms to 1d, got '2d'",
  'reserve-without-ttl.yaml':
    "8: descriptors[0].rate_limit.reserve.ttl: ttl must be a time such as 60s or 5m, from 100ms to 1d, got ''",
  'reserve-unknown-overrun.yaml':
    "8: descriptors[0].rate_limit.reserve.on_overrun: on_overrun must be debt or clip, got 'refuse'",
  'reserve-estimate-too-large.yaml':
    "8: descriptors[0].rate_limit.reserve.estimate: estimate must be p95, or 1 to the 1000 hits that fit into the limit, got '1001'",
  'reserve-estimate-is-no-number.yaml':
    "8: descriptors[0].rate_limit.reserve.estimate: estimate must be p95, or 1 to the 1000 hits that fit into the limit, got 'p99'",
  'reserve-with-local.yaml':
    '9: descriptors[0].rate_limit.on_store_failure: on_store_failure: local cannot be used with reserve: another process may get the commit; use error, allow or deny',
  'reserve-with-leases.yaml':
    '9: descriptors[0].rate_limit.consistency: consistency and reserve are mutually exclusive: remove one of them',
  'reserve-with-max-delay.yaml':
    '10: descriptors[0].rate_limit.max_delay: max_delay and reserve are mutually exclusive: remove one of them',
  'reserve-with-charge.yaml':
    '9: descriptors[0].rate_limit.charge: charge and reserve are mutually exclusive: remove one of them',
  'reserve-with-a-log.yaml':
    '9: descriptors[0].rate_limit.reserve: reserve cannot be used with sliding_window_log, only with fixed_window or sliding_window_counter or sliding_window_buckets or token_bucket or leaky_bucket',
  'commit-without-reserve.yaml':
    '10: descriptors[0].descriptors[0].not_counted: not_counted: commit requires a limit with reserve on the node directly above',
  'commit-with-a-limit.yaml':
    '11: descriptors[0].descriptors[0].not_counted: not_counted: commit uses the limits of the node above: remove the limits and descriptors of this node',
  'commit-of-many-keys.yaml':
    "11: descriptors[0].descriptors[0].not_counted: not_counted: commit requires a key without '*', got 'used*'",
  'wrong-among-rate-limits.yaml':
    '8: descriptors[0].rate_limits[1].burst: burst cannot be used with fixed_window, only with token_bucket or leaky_bucket',
  'adapt-and-requests.yaml':
    '7: descriptors[0].descriptors[0].rate_limit.requests_per_unit: requests_per_unit and adapt are mutually exclusive: adapt has min and max instead',
  'adapt-min-above-max.yaml':
    '7: descriptors[0].descriptors[0].rate_limit.adapt.min: min must be 1 to max, which is 8, got 9',
  'adapt-max-too-large.yaml':
    '7: descriptors[0].descriptors[0].rate_limit.adapt.max: max must be 1 to 1000 slots, got 1001',
  'adapt-short-window.yaml':
    "7: descriptors[0].descriptors[0].rate_limit.adapt.window: window must be a time such as 500ms or 1s, from 100ms to 1m, got '50ms'",
  'adapt-without-id.yaml':
    '4: descriptors[0].rate_limit.adapt: adapt requires the id of the request: put not_counted: hold on this node or one above',
};

/** The warnings about files that load anyway. */
const warnings: Readonly<Record<string, string>> = {
  'warning-in-flight-beside-another-limit.yaml':
    '7: warning: descriptors[0].rate_limits[1].algorithm: a release, even of a refused request, also refunds the other limits of this node; put them on a node that releases do not match',
  'warning-reserve-without-commit.yaml':
    '8: warning: descriptors[0].rate_limit.reserve: no node below has not_counted: commit, with which a proxy reports the use of a request: only weir.v1.Holds can commit',
  'warning-reserve-allow.yaml':
    '9: warning: descriptors[0].rate_limit.on_store_failure: on_store_failure: allow admits requests without a reservation: their use may exceed the limit once the store is back',
  'warning-reserve-with-each.yaml':
    '8: warning: descriptors[0].rate_limit.reserve: with spend: each, a request that another limit refuses keeps its reservation here until the ttl expires; use spend: all_or_nothing',
  'warning-misplaced-key.yaml':
    "7: warning: descriptors[0].rate_limit.shadow_mode: 'shadow_mode' has no effect in rate_limit and is ignored; put it on the node, or use rate_limits",
  'warning-key-twice.yaml':
    "7: warning: descriptors[0].rate_limit.requests_per_unit: duplicate key 'requests_per_unit', also on line 6; the last one counts",
  'warning-further-document.yaml': '6: warning: only the first YAML document of a file is read; this one is ignored',
  'warning-no-requests.yaml': `5: warning: descriptors[0].rate_limit.requests_per_unit: ${NO_REQUESTS}`,
  'warning-no-requests-among-rate-limits.yaml': `6: warning: descriptors[0].rate_limits[1].requests_per_unit: ${NO_REQUESTS}`,
  'warning-no-descriptors.yaml': '2: warning: descriptors: the file has no descriptors and limits nothing',
  'warning-no-rule.yaml': "1: warning: domain: domain 'demo' has no rate_limit anywhere",
  'warning-replaces-unknown.yaml':
    "11: warning: descriptors[1].rate_limit.replaces[1].name: nothing is replaced: domain 'demo' has no limit named 'fre'",
  'warning-replaces-unlimited.yaml':
    "6: warning: descriptors[1].rate_limit.replaces[0].name: nothing is replaced: domain 'demo' has no limit named 'guests'",
  'warning-hidden-wildcard.yaml':
    "6: warning: descriptors[1]: unreachable: 'path_/api/*' (warning-hidden-wildcard.yaml:3) matches everything that 'path_/api/admin/*' matches, and takes precedence; put this one before it, or remove it",
  'warning-hidden-key.yaml':
    "5: warning: descriptors[0].descriptors[0]: unreachable: 'path_*' (warning-hidden-key.yaml:7) matches everything that 'path' matches, and takes precedence; remove one of them",
  'warning-mode-without-limit.yaml':
    '4: warning: descriptors[0].shadow_mode: shadow_mode has no effect: this node has no limit',
  'warning-mode-when-unlimited.yaml':
    '4: warning: descriptors[0].quota_mode: quota_mode has no effect: this node has no limit',
  'warning-metric-without-limit.yaml':
    '6: warning: descriptors[1].detailed_metric: detailed_metric has no effect: this node has no limit',
  'warning-metadata-without-limit.yaml':
    '6: warning: descriptors[1].metadata: metadata has no effect: this node has no limit',
  'warning-value-to-metric-of-one-value.yaml':
    "5: warning: descriptors[0].value_to_metric: value_to_metric has no effect: the value is always shown, as 'alice'",
  'warning-value-to-metric-when-shared.yaml':
    '6: warning: descriptors[0].value_to_metric: value_to_metric has no effect: values that share a counter are shown by their pattern',
  'warning-block-in-its-list.yaml':
    '4: warning: descriptors[0].addresses: 10.1.0.0/16 has no effect: a wider block in the same list contains it',
  'warning-block-listed-twice.yaml': '4: warning: descriptors[0].addresses: 10.0.0.1 is listed twice',
  'warning-block-unreachable.yaml':
    '4: warning: descriptors[0].addresses: 10.0.0.0/8 is unreachable: longer blocks contain all of its addresses',
  'warning-in-flight-without-id.yaml':
    '4: warning: descriptors[0].rate_limit.algorithm: in_flight without an id counts refused requests until their release, and a slot whose release is lost stays taken as long as requests keep coming; end the descriptor with the id of the request, on a node with not_counted: hold',
  'warning-not-counted-without-in-flight.yaml':
    '4: warning: descriptors[0].not_counted: not_counted: hold only leaves the value out of counters: no limit here or below has algorithm: in_flight or reserve',
  'warning-priority-without-adapt.yaml':
    '4: warning: descriptors[0].not_counted: not_counted: priority only leaves the value out of counters: no limit here or below has adapt',
  'warning-in-flight-allow.yaml':
    '9: warning: descriptors[0].rate_limit.on_store_failure: on_store_failure: allow admits requests without a slot: more than the limit may be in flight while the store is down, and until these requests end',
  'warning-value-to-metric-without-limit.yaml':
    '4: warning: descriptors[0].value_to_metric: value_to_metric has no effect: this node has no limit',
};

describe('a file with one error', () => {
  const load = (name: string): LoadedRules =>
    loadRules([{ path: join(FIXTURES, name), name }], { mergeDomains: false });
  const told = (loaded: LoadedRules): readonly string[] =>
    (loaded.ok ? loaded.warnings : loaded.problems).map(formatProblem);

  test.each(Object.entries(messages))('%s', (name, message) => {
    const loaded = load(name);
    expect({ ok: loaded.ok, told: told(loaded) }).toEqual({ ok: false, told: [`${name}:${message}`] });
  });

  test.each(Object.entries(warnings))('%s loads', (name, message) => {
    const loaded = load(name);
    expect({ ok: loaded.ok, told: told(loaded) }).toEqual({ ok: true, told: [`${name}:${message}`] });
  });

  test('every fixture is listed here', () => {
    expect(readdirSync(FIXTURES).sort()).toEqual([...Object.keys(messages), ...Object.keys(warnings)].sort());
  });
});
