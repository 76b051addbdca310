import '../../helpers/realm.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { loadText } from '../../helpers/rules.ts';

/** The list of algorithms in messages. */
const ALGORITHMS =
  'fixed_window, sliding_window_log, sliding_window_counter, sliding_window_buckets, token_bucket, leaky_bucket, in_flight, allocation';
const UNITS = 'second, minute, hour, day, week, month, year';

const NO_REQUESTS = 'without requests_per_unit the limit is 0 and refuses every hit; if this is intended, write 0';

/** What is wrong with limits: the message, from the key that it names. */
const ofLimits: Readonly<Record<string, string>> = {
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_counter, alignment: calendar':
    'alignment: calendar requires fixed_window; use epoch, or { anchor, timezone }',
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_buckets, buckets: 7':
    'buckets: must be 1 to 100 and divide the window of 60000 ms, got 7',
  'unit: minute, requests_per_unit: 5, algorithm: token_bucket, buckets: 6':
    'buckets: cannot be used with token_bucket, only with sliding_window_buckets',
  'unit: minute, requests_per_unit: 5, algorithm: token_bucket, burst: 0': 'burst: must be at least 1, got 0',
  'unit: year, requests_per_unit: 5, algorithm: token_bucket, burst: 4294967295':
    'burst: hits times milliseconds of the window must stay below 2^53 to be exact, got 135446088646656000000; take a smaller limit or window',
  'unit: minute, requests_per_unit: 5, penalty: { grow: 2x up to 1d }':
    'penalty.block: must be a time such as 10m or 1h, from 1s to 365d, got nothing',
  'unit: minute, requests_per_unit: 5, penalty: { block: 500ms }':
    "penalty.block: must be a time such as 10m or 1h, from 1s to 365d, got '500ms'",
  'unit: minute, requests_per_unit: 5, penalty: { block: 10m, grow: 2x up to 10m }':
    "penalty.grow: must end above the block of 10m, at most 365d, got '2x up to 10m'",
  'unit: minute, requests_per_unit: 5, penalty: { block: 10m, grow: 1.5x up to 1d }':
    "penalty.grow: must be a factor from 2 to 10 and the longest block, such as 2x up to 1d, got '1.5x up to 1d'",
  'unit: minute, requests_per_unit: 5, penalty: { block: 10m, forgiven_after: 1d }':
    'penalty.forgiven_after: goes with grow: blocks of equal length need no forgiveness',
  'unit: minute, requests_per_unit: 5, penalty: { block: 10m, grow: 2x up to 1d, forgiven_after: 2000d }':
    "penalty.forgiven_after: must be a time such as 1d, from 1s to 365d, got '2000d'",
  'unit: minute, requests_per_unit: 5, penalty: { block: 10m }, consistency: leased':
    'consistency: cannot be used with penalty: remove one of them',
  'unit: minute, requests_per_unit: 5, penalty: { block: 10m }, on_store_failure: local':
    'on_store_failure: local cannot be used with penalty: other processes would not know of a block; use error, allow or deny',
  'algorithm: in_flight, requests_per_unit: 5, ttl: 30s, penalty: { block: 10m }':
    'penalty: cannot be used with in_flight, only with fixed_window or sliding_window_log or sliding_window_counter or sliding_window_buckets or token_bucket or leaky_bucket',
  'unit: minute, requests_per_unit: 5, algorithm: leaky_bucket, burst: 0': 'burst: must be at least 1, got 0',
  'unit: minute, requests_per_unit: 5, notify: [0%]':
    "notify: must list percentages of the limit from 1% to 100%, got '0%'",
  'unit: minute, requests_per_unit: 5, notify: [80%, 80%]':
    'notify: must list at most 8 different percentages, got 80%, 80%',
  'algorithm: in_flight, requests_per_unit: 5, ttl: 30s, notify: 80%':
    'notify: cannot be used with in_flight, only with fixed_window or sliding_window_log or sliding_window_counter or sliding_window_buckets or token_bucket or leaky_bucket',
  'unit: minute, requests_per_unit: 5, burst: 10':
    'burst: cannot be used with fixed_window, only with token_bucket or leaky_bucket',
  'window: 1500ms, requests_per_unit: 5, alignment: calendar':
    'alignment: calendar goes with one unit: hour, day, week, month, year; got 1 × unknown',
  'unit: minute, requests_per_unit: 5, alignment: calendar':
    'alignment: calendar goes with one unit: hour, day, week, month, year; got 1 × minute',
  'unit: day, unit_multiplier: 2, requests_per_unit: 5, alignment: calendar':
    'alignment: calendar goes with one unit: hour, day, week, month, year; got 2 × day',
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_log, charge: always':
    'charge: cannot be used with sliding_window_log, only with fixed_window or sliding_window_counter or sliding_window_buckets or token_bucket or leaky_bucket',
  'unit: minute, requests_per_unit: 5, charge: always, consistency: leased':
    'charge: always cannot be used with consistency: leased: remove one of them',
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_buckets, buckets: 6, count_denied: true':
    'count_denied: cannot be used with sliding_window_buckets, only with sliding_window_log',
  'unit: minute, requests_per_unit: -1':
    'requests_per_unit: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!int `-1` into uint32; expected a whole number from 0 to 9007199254740990',
  'unit: minute, requests_per_unit: "5"':
    'requests_per_unit: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!str `5` into uint32; expected a whole number from 0 to 9007199254740990; remove the quotes',
  'unit: minute, requests_per_unit: 9007199254740991':
    'requests_per_unit: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!int `9007199...` into uint32; expected a whole number from 0 to 9007199254740990',
  'unit: year, requests_per_unit: 4294967295, algorithm: sliding_window_counter':
    'requests_per_unit: hits times milliseconds of the window must stay below 2^53 to be exact, got 135446088615120000000; take a smaller limit or window',
  'algorithm: in_flight, requests_per_unit: 5, ttl: 30s, on_store_failure: local':
    'on_store_failure: local cannot be used with in_flight: another process may get the release; use error, allow or deny',
  'algorithm: in_flight, requests_per_unit: 5':
    'ttl: in_flight requires a ttl longer than any request lasts: after that time a slot is free again',
  'unit: year, requests_per_unit: 4294967295, algorithm: leaky_bucket':
    'requests_per_unit: hits times milliseconds of the window must stay below 2^53 to be exact, got 135446088615120000000; take a smaller limit or window',
  'unit: minute, requests_per_unit: 1000, algorithm: sliding_window_log, soft: 1':
    'requests_per_unit: a sliding_window_log remembers at most 1000 hits (soft ones included), got 1001',
  'unit: minute, requests_per_unit: 1001, algorithm: sliding_window_log':
    'requests_per_unit: a sliding_window_log remembers at most 1000 hits (soft ones included), got 1001',
  'unit: minute, requests_per_unit: 5, algorithm: leaky_bucket, max_delay: 0.3s':
    "max_delay: must be a time such as 300ms or 2s, up to 1h, got '0.3s'",
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_counter, max_delay: 300ms':
    'max_delay: cannot be used with sliding_window_counter, only with token_bucket or leaky_bucket',
  'unit: minute, requests_per_unit: 5, algorithm: token_bucket, soft: 2, max_delay: 300ms':
    'max_delay: cannot be used with soft: remove one of them',
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_buckets':
    'buckets: must be 1 to 100 and divide the window of 60000 ms, got nothing',
  'unit: minute, algorithm: leaky_bucket': 'requests_per_unit: must be at least 1 with leaky_bucket, got 0',
  'unit: minute, requests_per_unit: 0, algorithm: token_bucket, burst: 5':
    'requests_per_unit: must be at least 1 with token_bucket, got 0',
  'requests_per_unit: 5': `unit: invalid rate limit unit ''; expected one of ${UNITS}, or a window`,
  'unit: minute, requests_per_unit: 5, algorithm: leaky_bucket, refill: interval':
    'refill: cannot be used with leaky_bucket, only with token_bucket',
  'name: per-user, unit: minute, requests_per_unit: 5, replaces: [{ name: per-user }]':
    "replaces[0].name: replaces should not contain name of same descriptor: expected the name of another limit, got 'per-user'",
  'unit: minute, requests_per_unit: 5, replaces: [{ name: null }]':
    "replaces[0].name: should not have an empty replaces entry: expected the name of another limit, got ''",
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_log, rounding: up':
    'rounding: cannot be used with sliding_window_log, only with sliding_window_counter',
  'unit: minute, requests_per_unit: 5, algorithm: token_bucket, timezone: Europe/Berlin':
    'timezone: cannot be used with token_bucket, only with fixed_window',
  'unit: day, requests_per_unit: 5, alignment: first_hit, timezone: Europe/Berlin':
    'timezone: goes with alignment: calendar, not with first_hit',
  'unit: day, requests_per_unit: 5, timezone: Europe/Berlin': 'timezone: goes with alignment: calendar, not with epoch',
  'unit: hour, requests_per_unit: 4294967295, algorithm: token_bucket':
    'requests_per_unit: hits times milliseconds of the window must stay below 2^53 to be exact, got 15461882262000000; take a smaller limit or window',
  'unit: day, requests_per_unit: 5, algorithm: sliding_window_buckets, buckets: 120':
    'buckets: must be 1 to 100 and divide the window of 86400000 ms, got 120',
  'algorithm: in_flight, requests_per_unit: 5, ttl: 30s, unit: minute':
    'unit: cannot be used with in_flight, which has a ttl',
  'algorithm: in_flight, requests_per_unit: 5, ttl: 2d':
    "ttl: must be a time such as 30s or 5m, from 100ms to 1d, got '2d'",
  'unit: minute, requests_per_unit: 5, ttl: 30s': 'ttl: cannot be used with fixed_window, only with in_flight',
  'unit: minute, requests_per_unit: 5, window: 30s': 'window: cannot be used with unit: remove one of them',
  'unit_multiplier: 2, requests_per_unit: 5, window: 30s': 'unit_multiplier: goes with unit, not with window',
  'unit: minute, unit_multiplier: 0, requests_per_unit: 5':
    'unit_multiplier: must make a window of 1 unit to 100 years, got 0',
  'unit: year, unit_multiplier: 101, requests_per_unit: 5':
    'unit_multiplier: must make a window of 1 unit to 100 years, got 101',
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window': `algorithm: unknown algorithm 'sliding_window'; expected one of ${ALGORITHMS}`,
  'unit: minute, requests_per_unit: 5, alignment: clock':
    "alignment: must be epoch or first_hit or calendar, got 'clock'",
  'unit: minute, requests_per_unit: 5, charge: never': "charge: must be accepted or always, got 'never'",
  'unit: minute, requestsPerUnit: 5':
    "requestsPerUnit: config error, unknown key 'requestsPerUnit'; did you mean 'requests_per_unit'?",
  'unit: minute, requests_per_unit: 5, replaces: [{ name: per-address, unit_of_time: hour }]':
    "replaces[0].unit_of_time: config error, unknown key 'unit_of_time'; expected one of name",
  'unit: minute, requests_per_unit: 5, algorithm: token_bucket, refill: steady':
    "refill: must be continuous or interval, got 'steady'",
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_counter, rounding: nearest':
    "rounding: must be down or up, got 'nearest'",
  'unit: day, requests_per_unit: 5, alignment: calendar, timezone: Europe/Bern':
    "timezone: must be a name of the IANA database such as Europe/Berlin, got 'Europe/Bern'",
  'unit: minutes, requests_per_unit: 5': "unit: invalid rate limit unit 'minutes'; did you mean 'minute'?",
  'unlimited: true, unit: minute': 'unit: should not specify rate limit unit when unlimited: remove one of them',
  'window: half an hour, requests_per_unit: 5':
    "window: must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got 'half an hour'",
  'window: 0s, requests_per_unit: 5':
    "window: must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '0s'",
  'window: 36501d, requests_per_unit: 5':
    "window: must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '36501d'",
  'unlimited: true, requests_per_unit: 5, window: 30s': 'window: cannot be used when unlimited: remove one of them',
  'unit: minute, requests_per_unit: 5, schedule: [{ requests_per_unit: 9 }]':
    'schedule[0].active: must say when the entry applies, got nothing',
  'unit: minute, requests_per_unit: 5, schedule: [{ active: { days: sun }, unlimited: true, soft: 1 }]':
    'schedule[0].unlimited: cannot be used with soft: remove one of them',
  'unlimited: true, active: { days: sun }': 'active: cannot be used when unlimited: remove one of them',
  'name: a, unit: minute, requests_per_unit: 5, replaces: [{ name: b }], active: { days: sun }':
    'active: cannot be used with replaces: give the replaced limit a schedule instead',
  'unit: minute, requests_per_unit: 5, active: { hours: 25:00-26:00 }':
    "active.hours: must be times of day such as 09:00-17:00 or 22:00-06:00, up to 24:00, got '25:00-26:00'",
  'unit: minute, requests_per_unit: 5, schedule: [{ active: { days: sun }, buckets: 7 }]':
    'schedule[0].buckets: cannot be used with fixed_window, only with sliding_window_buckets',
  'algorithm: in_flight, ttl: 9s, requests_per_unit: 5, active: { days: sun }':
    'active: in_flight, allocation and reserve require one counter at all times, since hits may come back after a change: use a schedule that changes only numbers, without active on the limit itself, unlimited or on_change: reset',
  'unit: minute, requests_per_unit: 5, alignment: { anchor: 2026-11-27 }':
    "alignment.anchor: must be a date since 1970 with a time of day such as 2026-11-27T00:00, got '2026-11-27'",
  'unit: minute, requests_per_unit: 5, algorithm: sliding_window_log, alignment: { anchor: 2026-11-27T00:00 }':
    'alignment: cannot be used with sliding_window_log, only with fixed_window or sliding_window_counter or sliding_window_buckets or token_bucket',
  'unit: minute, requests_per_unit: 5, algorithm: token_bucket, alignment: { anchor: 2026-11-27T00:00 }':
    'alignment: goes with refill: interval: a continuous refill has no windows',
  'unit: day, requests_per_unit: 5, algorithm: sliding_window_counter, alignment: calendar':
    'alignment: calendar requires fixed_window; use epoch, or { anchor, timezone }',
  'window: 20w, requests_per_unit: 5, timezone: UTC, alignment: { anchor: 2026-11-27T00:00 }':
    'timezone: goes into alignment, beside the anchor: { anchor, timezone }',
  'unit: year, unit_multiplier: 11, requests_per_unit: 5, alignment: { anchor: 2026-11-27T00:00 }':
    'alignment.anchor: windows with an anchor are at most 10 years long, got 346896000000 ms',
  'unit: minute, requests_per_unit: 5, on_store_failure: maybe':
    "on_store_failure: must be error or allow or deny or local, got 'maybe'",
  'unit: minute, requests_per_unit: 5, on_overload: deny': "on_overload: must be local or error, got 'deny'",
  'unit: minute, requests_per_unit: 5, on_store_failure: local, local_share: 0':
    'local_share: must be 1 to requests_per_unit, so that each process may pass something, got 0',
  'unit: minute, requests_per_unit: 5, on_store_failure: local, local_share: 6':
    'local_share: must be 1 to requests_per_unit, so that each process may pass something, got 6',
  'unit: minute, requests_per_unit: 5, soft: 1, consistency: leased':
    'soft: cannot be used with consistency: leased: remove one of them',
  'unit: day, requests_per_unit: 9, algorithm: token_bucket, max_delay: 1s, consistency: leased':
    'max_delay: cannot be used with consistency: leased: remove one of them',
  'unit: day, requests_per_unit: 9, on_change: never': "on_change: must be keep or reset, got 'never'",
};

/** What is wrong, or probably a mistake, in the nodes of a file: the message, from its path. */
const ofNodes: Readonly<Record<string, string>> = {
  '{ key: service, descriptors: [{ key: request_id, not_counted: hold, rate_limit: { algorithm: in_flight, ttl: 30s, requests_per_unit: 5, adapt: { max: 9 } } }] }':
    'descriptors[0].descriptors[0].rate_limit.requests_per_unit: cannot be used with adapt, which has min and max instead',
  '{ key: service, descriptors: [{ key: request_id, not_counted: hold, rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { max: 1001 } } }] }':
    'descriptors[0].descriptors[0].rate_limit.adapt.max: must be 1 to 1000 slots, got 1001',
  '{ key: service, descriptors: [{ key: request_id, not_counted: hold, rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { min: 9, max: 8 } } }] }':
    'descriptors[0].descriptors[0].rate_limit.adapt.min: must be 1 to max, which is 8, got 9',
  '{ key: service, descriptors: [{ key: request_id, not_counted: hold, rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { window: 50ms } } }] }':
    "descriptors[0].descriptors[0].rate_limit.adapt.window: must be a time such as 500ms or 1s, from 100ms to 1m, got '50ms'",
  '{ key: service, rate_limit: { algorithm: in_flight, ttl: 30s, adapt: {} } }':
    'descriptors[0].rate_limit.adapt: requires the id of the request: put not_counted: hold on this node or one above',
  '{ key: ip, value: office, addresses: 10.0.0.0/8, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'descriptors[0].addresses: cannot be used with value: remove one of them',
  '{ key: ip, addresses: 10.1.2.3/8, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "descriptors[0].addresses: invalid address block '10.1.2.3/8': its address has bits beyond /8: write 10.0.0.0/8 for the block, or 10.1.2.3 for the address",
  '{ key: ip, addresses: [], rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'descriptors[0].addresses: error loading config file: expected at least one text, got a list',
  '{ key: ip, addresses: [10.0.0.0/8, "10.0.0.300"], rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "descriptors[0].addresses: invalid address block '10.0.0.300': expected a block of IP addresses such as 10.0.0.0/8, 2001:db8::/32 or 10.0.0.1",
  '{ key: ip, addresses: 10.0.0.0/8, not_counted: trace, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'descriptors[0].addresses: cannot be used with not_counted: remove one of them',
  '{ key: "ip*", addresses: 10.0.0.0/8, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "descriptors[0].addresses: requires a key without '*', got 'ip*'",
  '{ key: user, burst: 5, rate_limit: { unit: day, requests_per_unit: 5 } }':
    "descriptors[0].burst: config error, unknown key 'burst'; it goes into rate_limit",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s } }, descriptors: [{ key: "used*", not_counted: commit }] }':
    "descriptors[0].descriptors[0].not_counted: commit requires a key without '*', got 'used*'",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s } }, descriptors: [{ key: used, not_counted: commit, rate_limit: { unit: minute, requests_per_unit: 1 } }] }':
    'descriptors[0].descriptors[0].not_counted: commit uses the limits of the node above: remove the limits and descriptors of this node',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000 }, descriptors: [{ key: used, not_counted: commit }] }':
    'descriptors[0].descriptors[0].not_counted: commit requires a limit with reserve on the node directly above',
  '{ key: user }, address': 'descriptors[1]: config error, yaml file contains list of type other than map: address',
  '{ key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 1001, ttl: 30s } }':
    'descriptors[0].rate_limit.requests_per_unit: in_flight with ids has at most 1000 slots (soft ones included), got 1001; without not_counted: hold it may have more',
  '{ key: user, on: true }': 'descriptors[0]: config error, key is not of type string: true; put the key in quotes',
  '{ <<: per_minute, key: user }':
    'error loading config file: yaml: map merge requires map or sequence of maps as the value',
  '{ key: user, metadata: team-a }':
    'descriptors[0].metadata: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!str `team-a` into map[string]interface {}; expected a mapping',
  '{ value: alice }': 'descriptors[0].key: descriptor has empty key: expected a name such as user, got nothing',
  '{ key: id, value: "a*", share_threshold: true, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s } }':
    'descriptors[0].not_counted: hold cannot be used with share_threshold: remove one of them',
  '{ key: "id*", not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s } }':
    "descriptors[0].not_counted: hold requires a key without '*', got 'id*'",
  '{ key: id, value: a, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s } }':
    "descriptors[0].not_counted: hold requires a node without a fixed value, since each request has its own id, got 'a'",
  '{ key: id, not_counted: hold, descriptors: [{ key: other, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s } }] }':
    'descriptors[0].descriptors[0].not_counted: hold is already set on a node above',
  '{ key: id, not_counted: id, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s } }':
    "descriptors[0].not_counted: must be hold or trace or priority or commit, got 'id'",
  '{ key: user, rate_limit: { unit: day, requests_per_unit: 5 }, rate_limits: [{ unit: minute, requests_per_unit: 5 }] }':
    'descriptors[0].rate_limits: cannot be used with rate_limit: remove one of them',
  '{ key: user, rate_limit: 5 }':
    'descriptors[0].rate_limit: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!int `5` into config.YamlRateLimit; expected a mapping',
  '{ key: user, rate_limits: { unit: day, requests_per_unit: 5 } }':
    'descriptors[0].rate_limits: error loading config file: expected a list, got a mapping',
  '{ key: user, rate_limits: [] }': 'descriptors[0].rate_limits: must hold 1 to 16 limits, got 0',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s, estimate: p99 } }, descriptors: [{ key: used, not_counted: commit }] }':
    "descriptors[0].rate_limit.reserve.estimate: must be p95, or 1 to the 1000 hits that fit into the limit, got 'p99'",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s, estimate: 1001 } }, descriptors: [{ key: used, not_counted: commit }] }':
    "descriptors[0].rate_limit.reserve.estimate: must be p95, or 1 to the 1000 hits that fit into the limit, got '1001'",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 2d } }, descriptors: [{ key: used, not_counted: commit }] }':
    "descriptors[0].rate_limit.reserve.ttl: must be a time such as 60s or 5m, from 100ms to 1d, got '2d'",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s, on_overrun: refuse } }, descriptors: [{ key: used, not_counted: commit }] }':
    "descriptors[0].rate_limit.reserve.on_overrun: must be debt or clip, got 'refuse'",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, algorithm: sliding_window_log, reserve: { ttl: 60s } }, descriptors: [{ key: used, not_counted: commit }] }':
    'descriptors[0].rate_limit.reserve: cannot be used with sliding_window_log, only with fixed_window or sliding_window_counter or sliding_window_buckets or token_bucket or leaky_bucket',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s }, charge: always }, descriptors: [{ key: used, not_counted: commit }] }':
    'descriptors[0].rate_limit.charge: cannot be used with reserve: remove one of them',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s }, consistency: leased }, descriptors: [{ key: used, not_counted: commit }] }':
    'descriptors[0].rate_limit.consistency: cannot be used with reserve: remove one of them',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s }, on_store_failure: local }, descriptors: [{ key: used, not_counted: commit }] }':
    'descriptors[0].rate_limit.on_store_failure: local cannot be used with reserve: another process may get the commit; use error, allow or deny',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, algorithm: token_bucket, reserve: { ttl: 60s }, max_delay: 2s }, descriptors: [{ key: used, not_counted: commit }] }':
    'descriptors[0].rate_limit.max_delay: cannot be used with reserve: remove one of them',
  '{ key: id, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s } } }':
    'descriptors[0].rate_limit.reserve: requires the id of the request: put not_counted: hold on this node or one above',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { on_overrun: debt } }, descriptors: [{ key: used, not_counted: commit }] }':
    "descriptors[0].rate_limit.reserve.ttl: must be a time such as 60s or 5m, from 100ms to 1d, got ''",
  '{ key: ip, addresses: 192.0.2.1/32, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: ip, value: "192.0.2.1", rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "descriptors[1].key: duplicate descriptor composite key 'demo.ip_192.0.2.1'; line 2 has it already: move the limits and descriptors of this node there",
  '{ key: ip, addresses: [10.0.0.0/8, "192.0.2.1"], rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: ip, addresses: [198.51.100.0/24, ::ffff:192.0.2.1], rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "descriptors[1].key: duplicate descriptor composite key 'demo.ip_192.0.2.1'; line 2 has it already: move the limits and descriptors of this node there",
  '{ key: user, descriptors: [{ key: path, value: /login }, { key: path }, { key: path, value: /login }] }':
    "descriptors[0].descriptors[2].key: duplicate descriptor composite key 'demo.user.path_/login'; line 2 has it already: move the limits and descriptors of this node there",
  '{ key: path, value: /login, share_threshold: true }':
    "descriptors[0].share_threshold: share_threshold can only be used with wildcard values (containing '*'), but found key 'path_/login'",
  '{ key: user, spend: each }': "descriptors[0].spend: config error, unknown key 'spend'; it goes into the file itself",
  '{ key: version, value: 1.5 }': `descriptors[0].value: error checking config: expected text, got the number '1.5'; put it in quotes: "1.5"`,
  '{ key: user, value: [alice, bob] }':
    'descriptors[0].value: config error, yaml file contains list of type other than map: alice; expected text',
  '{ key: user, value: [] }':
    'descriptors[0].value: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!seq into string; expected text',
  '{ key: user, value: [{ name: { key: 010, a: yes, b: ~ } }, [1_000, x]] }':
    'descriptors[0].value: config error, yaml file contains list of type other than map: [1000 x]; expected text',
  '{ key: user, value: {{ .Values.user }} }':
    'descriptors[0].value: error loading config file: yaml: invalid map key: a mapping; expected text',
  '{ key: user, value: { team: a } }': "descriptors[0].value: config error, unknown key 'team'; expected text",
  '{ key: user, value: { 0x1F: a } }':
    'descriptors[0].value: config error, key is not of type string: 31; expected text',
  '{ key: user, rate_limit: 1.5 }':
    "descriptors[0].rate_limit: error checking config: expected a mapping, got the number '1.5'",
  '{ key: user, metadata: 1.5 }':
    'descriptors[0].metadata: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!float `1.5` into map[string]interface {}; expected a mapping',
  '{ key: user, metadata: { [a]: b } }':
    'descriptors[0].metadata: error loading config file: yaml: invalid map key: a list',
  '{ key: user, 010: x }': 'descriptors[0]: config error, key is not of type string: 8; put the key in quotes',
  '{ key: user }, [{ value: b, key: 010 }]':
    'descriptors[1]: config error, yaml file contains list of type other than map: [map[key:8 value:b]]',
  '{ key: user, ratelimit: { unit: minute, requests_per_unit: 5 } }':
    "descriptors[0].ratelimit: config error, unknown key 'ratelimit'; did you mean 'rate_limit'?",
  '{ key: user, rate_limits: [{ unit: day, requests_per_unit: 5 }, { unlimited: true }] }':
    'descriptors[0].rate_limits[1].unlimited: cannot be used beside other limits: remove one of them',
  '{ key: ip, addresses: [10.0.0.0/8, 10.1.0.0/16], rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'warning: descriptors[0].addresses: 10.1.0.0/16 has no effect: a wider block in the same list contains it',
  '{ key: ip, addresses: ["10.0.0.1", 10.0.0.1/32], rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'warning: descriptors[0].addresses: 10.0.0.1 is listed twice',
  '{ key: ip, addresses: 10.0.0.0/8, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: ip, addresses: [10.0.0.0/9, 10.128.0.0/9], rate_limit: { unit: minute, requests_per_unit: 6 } }':
    'warning: descriptors[0].addresses: 10.0.0.0/8 is unreachable: longer blocks contain all of its addresses',
  '{ key: user, descriptors: [{ key: path, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: path, value: "*", share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 100 } }] }':
    "warning: descriptors[0].descriptors[0]: unreachable: 'path_*' (rules.yaml:2) matches everything that 'path' matches, and takes precedence; remove one of them",
  '{ key: path, value: "/api/*", rate_limit: { unit: minute, requests_per_unit: 100 } }, { key: path, value: "/api/admin/*", rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "warning: descriptors[1]: unreachable: 'path_/api/*' (rules.yaml:2) matches everything that 'path_/api/admin/*' matches, and takes precedence; put this one before it, or remove it",
  '{ key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s, on_store_failure: allow } }':
    'warning: descriptors[0].rate_limit.on_store_failure: allow admits requests without a slot: more than the limit may be in flight while the store is down, and until these requests end',
  '{ key: id, not_counted: hold, rate_limits: [{ unit: minute, requests_per_unit: 100 }, { algorithm: in_flight, requests_per_unit: 5, ttl: 30s }] }':
    'warning: descriptors[0].rate_limits[1].algorithm: a release, even of a refused request, also refunds the other limits of this node; put them on a node that releases do not match',
  '{ key: id, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 30s } }':
    'warning: descriptors[0].rate_limit.algorithm: in_flight without an id counts refused requests until their release, and a slot whose release is lost stays taken as long as requests keep coming; end the descriptor with the id of the request, on a node with not_counted: hold',
  '{ key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: path, metadata: { team: checkout } }':
    'warning: descriptors[1].metadata: has no effect: this node has no limit',
  '{ key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }, { key: path, detailed_metric: true }':
    'warning: descriptors[1].detailed_metric: has no effect: this node has no limit',
  '{ key: user, rate_limit: { unit: minute, requests_per_unit: 5, shadow_mode: true } }':
    "warning: descriptors[0].rate_limit.shadow_mode: 'shadow_mode' has no effect in rate_limit and is ignored; put it on the node, or use rate_limits",
  '{ key: user, quota_mode: true, rate_limit: { unlimited: true } }':
    'warning: descriptors[0].quota_mode: has no effect: this node has no limit',
  '{ key: user, shadow_mode: true, descriptors: [{ key: path, rate_limit: { unit: minute, requests_per_unit: 5 } }] }':
    'warning: descriptors[0].shadow_mode: has no effect: this node has no limit',
  '': 'warning: descriptors: the file has no descriptors and limits nothing',
  '{ key: user, rate_limits: [{ unit: second, requests_per_unit: 5 }, { unit: hour, requests_per_unit: null }] }': `warning: descriptors[0].rate_limits[1].requests_per_unit: ${NO_REQUESTS}`,
  '{ key: user, rate_limit: { unit: minute } }': `warning: descriptors[0].rate_limit.requests_per_unit: ${NO_REQUESTS}`,
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'warning: descriptors[0].not_counted: hold only leaves the value out of counters: no limit here or below has algorithm: in_flight or reserve',
  '{ key: id, not_counted: priority, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'warning: descriptors[0].not_counted: priority only leaves the value out of counters: no limit here or below has adapt',
  '{ key: free_plan, rate_limit: { name: free, unit: day, requests_per_unit: 1000 } }, { key: paid_plan, rate_limit: { unit: day, requests_per_unit: 100000, replaces: [{ name: free }, { name: fre }] } }':
    "warning: descriptors[1].rate_limit.replaces[1].name: nothing is replaced: domain 'demo' has no limit named 'fre'",
  '{ key: guest, rate_limit: { name: guests, unlimited: true } }, { key: member, rate_limit: { unit: day, requests_per_unit: 100, replaces: [{ name: guests }] } }':
    "warning: descriptors[1].rate_limit.replaces[0].name: nothing is replaced: domain 'demo' has no limit named 'guests'",
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s }, on_store_failure: allow }, descriptors: [{ key: used, not_counted: commit }] }':
    'warning: descriptors[0].rate_limit.on_store_failure: allow admits requests without a reservation: their use may exceed the limit once the store is back',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s } }, descriptors: [{ key: used, not_counted: commit }] }, { key: other, rate_limit: { unit: minute, requests_per_unit: 1 } }':
    'warning: descriptors[0].rate_limit.reserve: with spend: each, a request that another limit refuses keeps its reservation here until the ttl expires; use spend: all_or_nothing',
  '{ key: id, not_counted: hold, rate_limit: { unit: minute, requests_per_unit: 1000, reserve: { ttl: 60s } } }':
    'warning: descriptors[0].rate_limit.reserve: no node below has not_counted: commit, with which a proxy reports the use of a request: only weir.v1.Holds can commit',
  '{ key: user, value: alice, value_to_metric: true, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    "warning: descriptors[0].value_to_metric: has no effect: the value is always shown, as 'alice'",
  '{ key: user, value: "guest*", share_threshold: true, value_to_metric: true, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'warning: descriptors[0].value_to_metric: has no effect: values that share a counter are shown by their pattern',
  '{ key: user, value_to_metric: true }, { key: path, rate_limit: { unit: minute, requests_per_unit: 5 } }':
    'warning: descriptors[0].value_to_metric: has no effect: this node has no limit',
  '{ key: user, rate_limits: [{ unit: day, requests_per_unit: 5 }, { unit: minute, requests_per_unit: 5, burst: 5 }] }':
    'descriptors[0].rate_limits[1].burst: cannot be used with fixed_window, only with token_bucket or leaky_bucket',
};

/** The same for whole files: the message, from its line. */
const ofFiles: Readonly<Record<string, string>> = {
  'domain: demo\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: minute\n      requests_per_unit: 5.0\n':
    "6: descriptors[0].rate_limit.requests_per_unit: error checking config: expected a whole number from 0 to 9007199254740990, got the number '5.0'",
  'domain: demo\ndescriptors:\n  key: user\n':
    '3: descriptors: error loading config file: yaml: unmarshal errors: line 3: cannot unmarshal !!map into []config.YamlDescriptor; expected a list',
  'domain: demo\ndescriptors:\n  - key: user\n    shadow_mode: "true"\n':
    '4: descriptors[0].shadow_mode: error loading config file: yaml: unmarshal errors: line 4: cannot unmarshal !!str `true` into bool; expected true or false',
  'descriptors:\n  - key: user\n': '1: domain: config file cannot have empty domain: expected a name, got nothing',
  '- domain: demo\n- key: user\n':
    '1: error loading config file: yaml: unmarshal errors: line 1: cannot unmarshal !!seq into map[interface {}]interface {}; expected a mapping',
  'domain: demo\ndescriptors:\n  - key: user\n    value: *\n':
    '4: error loading config file: yaml: line 4: name of an alias node must contain at least one character; put a value that begins with * in quotes: "*"',
  'domain: demo\ndescriptors:\n  - key: user\n    rate_limit: *per_minute\n': `4: error loading config file: yaml: unknown anchor 'per_minute' referenced; if the text is meant, put it in quotes: "*per_minute"`,
  'x-limits: &per_minute { unit: minute, requests_per_unit: 5 }\ndomain: demo\ndescriptors:\n  - key: user\n    rate_limit: *per_minute\n':
    "1: x-limits: config error, unknown key 'x-limits'; expected one of domain, descriptors, match, spend, require",
  'domain: demo\nspend: nothing\ndescriptors:\n  - key: user\n    rate_limit: { unit: day, requests_per_unit: 5 }\n':
    "2: spend: must be one of each, all_or_nothing, spare_others, got 'nothing'",
  'domain: demo\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n---\ndomain: other\n':
    '6: warning: only the first YAML document of a file is read; this one is ignored',
  'domain: demo\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: minute\n      requests_per_unit: 5\n      requests_per_unit: 6\n':
    "7: warning: descriptors[0].rate_limit.requests_per_unit: duplicate key 'requests_per_unit', also on line 6; the last one counts",
  'domain: demo\ndescriptors:\n  - key: user\n    descriptors:\n      - key: path\n':
    "1: warning: domain: 'demo' has no rate_limit anywhere",
};

/** Each file has one problem. */
const toldOf = (text: string): readonly string[] => {
  const loaded = loadText(text);
  const problems = loaded.ok ? loaded.warnings : loaded.problems;
  expect(problems.map(({ severity }) => severity)).toEqual([loaded.ok ? 'warning' : 'error']);
  const told = problems.map(formatProblem);
  expect(told.join('\n')).not.toMatch(/\b(\w+)(\.\w+|\[\d\])*: \1 (?!can only|should not)/); // but for texts of envoyproxy/ratelimit
  return told;
};

test.each(Object.entries(ofLimits))('rate_limit: { %s }', (limit, message) => {
  const text = `domain: demo\ndescriptors: [{ key: user, rate_limit: { ${limit} } }]\n`;
  expect(toldOf(text)).toEqual([`rules.yaml:2: descriptors[0].rate_limit.${message}`]);
});

test.each(Object.entries(ofNodes))('descriptors: [%s]', (nodes, message) => {
  expect(toldOf(`domain: demo\ndescriptors: [${nodes}]\n`)).toEqual([`rules.yaml:2: ${message}`]);
});

test.each(Object.entries(ofFiles))('file %j', (text, message) => {
  expect(toldOf(text)).toEqual([`rules.yaml:${message}`]);
});

test('at most 16 limits of a node', () => {
  const limits = Array.from({ length: 17 }, (_, at) => `{ unit: day, requests_per_unit: ${at} }`);
  expect(toldOf(`domain: demo\ndescriptors: [{ key: user, rate_limits: [${limits.join(', ')}] }]\n`)).toEqual([
    'rules.yaml:2: descriptors[0].rate_limits: must hold 1 to 16 limits, got 17',
  ]);
});
