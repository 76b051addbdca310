import { type Mapping, parseMapping } from '../../src/parts/replay/mapping/mapping.ts';
import type { RecordedTraffic } from '../../src/parts/replay/request.ts';
import { Random } from '../../src/parts/simulate/random.ts';
import type { ScenarioName } from '../../src/parts/simulate/scenario-names.ts';
import { START_MS, simulated } from '../../src/parts/simulate/simulate.ts';

/** Traffic whose legitimate keys are known, and a limit for the advisor. */
export interface AdviseModel {
  readonly name: string;
  /** The subject of the limit, for the table. */
  readonly limited: string;
  /** The rules. Their limit is far too high, so that the advice depends on traffic alone. */
  readonly rules: string;
  /**
   * Whether some abusive keys send less than three times as much as others, so that advice is not expected to find
   * them.
   */
  readonly isTooClose?: true;
  /** Requests, equal for equal seeds. The rule applies to the first descriptor of each. */
  traffic(seed: number): RecordedTraffic;
}

const MINUTE_MS = 60_000;
const BATCH_REQUESTS = 1_024;

const LEGITIMATE_KEYS = 600;
const ABUSIVE_KEYS = 12;
const MINUTES = 30;

/** Requests per minute of abusive keys, evenly spaced. */
type AbusiveRates = readonly [least: number, most: number];

/**
 * 600 legitimate keys and 12 abusive ones, for 30 minutes. Requests of legitimate keys are Poisson processes; their
 * rates are log-normal with a median of 4 per minute and σ = 0.5.
 */
const knownRates = ([least, most]: AbusiveRates): AdviseModel => ({
  name: `known rates, abusive ones ${least} to ${most} a minute`,
  limited: 'a user, per minute',
  rules: rulesFor('user', 'unit: minute'),
  async *traffic(seed) {
    const random = new Random(seed);
    const requests = [...requestsAtKnownRates(random, [least, most])].sort((one, other) => one.atMs - other.atMs);
    for (let at = 0; at < requests.length; at += BATCH_REQUESTS)
      yield requests.slice(at, at + BATCH_REQUESTS).map(({ atMs, user, label }) => ({
        timeMs: START_MS + Math.floor(atMs),
        request: {
          domain: 'demo',
          descriptors: [{ entries: [{ key: 'user', value: user }], requestLimit: undefined, hits: 1 }],
        },
        label,
      }));
  },
});

interface RequestAtKnownRate {
  readonly atMs: number;
  readonly user: string;
  readonly label: 'allow' | 'refuse';
}

function* requestsAtKnownRates(random: Random, [least, most]: AbusiveRates): Iterable<RequestAtKnownRate> {
  const arrivals = (perMinute: number) => random.steady(0, MINUTES * MINUTE_MS, perMinute / 60);
  for (let at = 0; at < LEGITIMATE_KEYS; at++)
    for (const atMs of arrivals(4 * Math.exp(0.5 * normal(random)))) yield { atMs, user: `user-${at}`, label: 'allow' };
  for (let at = 0; at < ABUSIVE_KEYS; at++)
    for (const atMs of arrivals(random.between(least, most))) yield { atMs, user: `abuser-${at}`, label: 'refuse' };
}

/** @see https://en.wikipedia.org/wiki/Box%E2%80%93Muller_transform */
const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random.uniform())) * Math.cos(2 * Math.PI * random.uniform());

function rulesFor(key: string, window: string): string {
  return `domain: demo
descriptors:
  - key: ${key}
    rate_limit: { ${window}, requests_per_unit: 100000 }
`;
}

/** A scenario of `weir simulate` with a limit on one descriptor of its requests. */
function ofScenario(
  name: ScenarioName,
  limited: string,
  {
    key,
    window,
    others = '',
  }: { readonly key: 'user' | 'remote_address'; readonly window: string; readonly others?: string },
): AdviseModel {
  const action =
    key === 'user' ? '{ request_headers: { header_name: x-user, descriptor_key: user } }' : '{ remote_address: {} }';
  const mapping = createMapping(`domain: demo
rate_limits:
  - actions: [${action}]
${others}label: { field: label, allow: allow, refuse: refuse }
`);
  return { name, limited, rules: rulesFor(key, window), traffic: (seed) => simulated(name, seed, mapping) };
}

function createMapping(text: string): Mapping {
  const parsed = parseMapping('the mapping of a model', text);
  if ('mapping' in parsed) return parsed.mapping;
  throw new Error(parsed.problems.map(({ message }) => message).join('; '));
}

const AND_USER = '  - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]\n';

export const adviseModels: readonly AdviseModel[] = [
  knownRates([100, 300]),
  { ...knownRates([40, 120]), isTooClose: true },
  ofScenario('flash-sale', 'a user, per minute', { key: 'user', window: 'unit: minute' }),
  ofScenario('scraper', 'a user, per minute', { key: 'user', window: 'unit: minute' }),
  ofScenario('credential-stuffing', 'an address, per 5 minutes', { key: 'remote_address', window: 'window: 5m' }),
  ofScenario('cron', 'a user, per minute', { key: 'user', window: 'unit: minute' }),
  ofScenario('nat', 'an address, per minute', { key: 'remote_address', window: 'unit: minute', others: AND_USER }),
];
