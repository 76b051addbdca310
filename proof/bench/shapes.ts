import type { Unit } from '../../src/engine/algorithms/limit.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import type { Code } from './generator/answer.ts';
import type { Question } from './generator/requests.ts';

export const DOMAIN = 'bench';

/** A rule for all values of one key. */
export interface BenchRule {
  readonly key: string;
  readonly requestsPerUnit: number;
  readonly unit: Extract<Unit, 'SECOND' | 'HOUR' | 'DAY'>;
  readonly algorithm: Limit['algorithm'];
  /** The key whose values share it; absent: nothing does. */
  readonly by?: string;
}

/** A row of the benchmark: the same load for every service that supports it. */
export interface Shape {
  readonly name: string;
  readonly store: 'memory' | 'redis';
  readonly rules: readonly BenchRule[];
  readonly question: Question;
  readonly connections: number;
  /** Calls in flight on each connection, in a closed loop. */
  readonly callsInFlight: number;
  /**
   * half capacity: the same rate for all services, half of the slowest one's in a closed loop. A number: calls per
   * second, evenly spaced.
   */
  readonly pace: 'closed loop' | 'half capacity' | number;
  /** The expected code of every answer after the warm-up. */
  readonly code: Code;
  /** Size of the deny cache; 0 to disable it. */
  readonly denyCacheBytes: number;
  /** Weir counts in leases: `CONSISTENCY=leased`. Other services count as ever. */
  readonly leased?: true;
}

const KEYS = 100_000;
const NEVER_REACHED = 1_000_000_000;

/** Shows that a service has its rules: the second call of the day is over the limit. */
const probe: BenchRule = { key: 'probe', requestsPerUnit: 1, unit: 'DAY', algorithm: 'fixed_window' };
export const PROBE: Question = { domain: DOMAIN, descriptors: [{ key: 'probe', value: 'rules' }] };

const user: BenchRule = { key: 'user', requestsPerUnit: NEVER_REACHED, unit: 'HOUR', algorithm: 'fixed_window' };
const oneUser = { key: 'user', value: 'alice' };
const manyUsers = { key: 'user', value: 'user', values: KEYS };

const ordinary: Omit<Shape, 'name'> = {
  store: 'redis',
  rules: [probe, user],
  question: { domain: DOMAIN, descriptors: [oneUser] },
  connections: 4,
  callsInFlight: 25,
  pace: 'closed loop',
  code: 'OK',
  denyCacheBytes: 0,
};
const distinct = { ...ordinary, question: { domain: DOMAIN, descriptors: [manyUsers] } };

/** A limit that none of many keys reaches, and that is small enough for every algorithm. */
const PER_KEY = 1_000;
const algorithms = [
  'sliding_window_counter',
  'sliding_window_buckets',
  'sliding_window_log',
  'token_bucket',
  'leaky_bucket',
] as const;

/** Rows for the cost of recording answers for operators; the last one matches no rule. */
export const viewShapes: readonly Shape[] = [
  { ...ordinary, name: 'memory, one hot key', store: 'memory' },
  { ...distinct, name: `memory, ${KEYS} keys`, store: 'memory' },
  { ...distinct, name: `Redis, ${KEYS} keys` },
  {
    ...ordinary,
    name: `memory, ${KEYS} unmatched descriptors`,
    store: 'memory',
    question: { domain: DOMAIN, descriptors: [{ key: 'usr', value: 'user', values: KEYS }] },
  },
];

/** Rows that compare one process with several, which have as many connections each as the process has in other rows. */
export function workerShapes(workers: number): readonly Shape[] {
  const connections = ordinary.connections * workers;
  return [
    { ...ordinary, name: `Redis, one hot key, ${connections} connections`, connections },
    { ...distinct, name: `Redis, ${KEYS} keys, ${connections} connections`, connections },
  ];
}

const twoRules = [probe, user, { ...user, key: 'path' }];
const path = { key: 'path', value: '/checkout' };

/** Calls that come one by one, as most installations have them. */
const few = { key: 'user', value: 'user', values: 20 };
const pacedShapes: readonly Shape[] = [500, 2_000, 10_000, 40_000].flatMap((callsPerSecond) => {
  const paced = { ...ordinary, connections: 20, pace: callsPerSecond, name: `Redis, ${callsPerSecond} calls/s` };
  const one: Shape = { ...paced, question: { domain: DOMAIN, descriptors: [few] } };
  const two: Shape = { ...paced, rules: twoRules, question: { domain: DOMAIN, descriptors: [few, path] } };
  return [one, { ...two, name: `${two.name}, two descriptors` }, { ...one, name: `${one.name}, leased`, leased: true }];
});

/** A limit for each of many tenants and one for all of them, and one limit that the tenants share. */
const many = { key: 'user', value: 'tenant', values: 1_000 };
const all: BenchRule = { key: 'path', requestsPerUnit: 1_000_000, unit: 'SECOND', algorithm: 'token_bucket' };
const sharedShapes: readonly Shape[] = [
  {
    ...ordinary,
    name: 'Redis, 1000 tenants, two token buckets',
    rules: [probe, { ...all, key: 'user' }, all],
    question: { domain: DOMAIN, descriptors: [many, path] },
  },
  {
    ...ordinary,
    name: 'Redis, 1000 tenants, a shared limit',
    rules: [probe, { ...all, algorithm: 'fair_share', by: 'user' }],
    question: { domain: DOMAIN, descriptors: [{ ...many, above: path }] },
  },
];

export const shapes: readonly Shape[] = [
  ...pacedShapes,
  { ...ordinary, name: 'Redis, one hot key' },
  { ...distinct, name: `Redis, ${KEYS} keys` },
  {
    ...ordinary,
    name: 'Redis, two descriptors',
    rules: twoRules,
    question: { domain: DOMAIN, descriptors: [manyUsers, path] },
  },
  ...sharedShapes,
  { ...ordinary, name: 'Redis, 64 connections of one call', connections: 64, callsInFlight: 1 },
  {
    ...ordinary,
    name: 'Redis, a key over its limit, deny cache',
    rules: [probe, { ...user, requestsPerUnit: 1, unit: 'DAY' }],
    code: 'OVER_LIMIT',
    denyCacheBytes: 1024 * 1024,
  },
  { ...distinct, name: `Redis, ${KEYS} keys, fixed rate`, pace: 'half capacity' },
  { ...ordinary, name: 'memory, one hot key', store: 'memory' },
  { ...ordinary, name: 'memory, 64 connections of one call', store: 'memory', connections: 64, callsInFlight: 1 },
  { ...distinct, name: `memory, ${KEYS} keys`, store: 'memory' },
  ...algorithms.map((algorithm) => ({
    ...distinct,
    name: `Redis, ${KEYS} keys, ${algorithm}`,
    rules: [probe, { ...user, algorithm, requestsPerUnit: PER_KEY }],
  })),
];
