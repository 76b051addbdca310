/** How a server is said to count. The definitions are in conformance/judge.md. */
export const algorithms = {
  fixed_window: 'windows aligned to multiples of their length since 1970',
  sliding_window_log: 'every hit of the last window',
  sliding_window_counter: 'hits of this aligned window, and the share of the previous one that still overlaps',
  token_bucket: '`burst` tokens at most, `limit` new ones in each window',
  leaky_bucket: 'the same arithmetic as a token bucket: at most `burst` hits wait, `limit` leave in each window',
  in_flight: '`limit` holders at once, each until it is released or `ttl_ms` have passed',
} as const;
export type Algorithm = keyof typeof algorithms;

/** A limit that a server is said to have, with a counter for each key. */
export interface Limit {
  readonly name: string;
  readonly domain: string;
  /** A descriptor. `{key}` stands for the counter's key, `{holder}` for the id of a request in flight. */
  readonly entries: readonly (readonly [key: string, value: string])[];
  readonly algorithm: Algorithm;
  /** Hits in a window, or holders at once. */
  readonly limit: number;
  readonly windowMs: number;
  /** Capacity of a bucket, in hits; default: the limit. */
  readonly burst: number;
  readonly ttlMs: number;
  /** Hits by which the server may exceed its limit, by its own declaration. */
  readonly slack: number;
  /** Hits below its limit at which it may refuse, by its own declaration: those that others have leased, for instance. */
  readonly early: number;
  /** Refused calls count as well, as in envoyproxy/ratelimit. */
  readonly countsRefused: boolean;
  /** The largest number of hits of a call. */
  readonly maxHits: number;
}

/** What is left is exact as well. */
export const isExact = ({ slack, early }: Limit): boolean => slack === 0 && early === 0;

/** What is said about a server. */
export interface Declaration {
  /** The most by which any two clocks differ, the client's included. */
  readonly skewMs: number;
  /** The longest time after which a call without an answer may still take effect. */
  readonly lateMs: number;
  readonly limits: readonly Limit[];
}

const defaults = { skew_ms: 20, late_ms: 5_000 };

/**
 * Reads a declaration.
 *
 * @param text  JSON: `{ "skew_ms": 20, "late_ms": 5000, "limits": [{ "name", "domain", "descriptor": { "key": "value" },
 *   "algorithm", "limit", "window_ms", ... }] }`
 * @throws Error  names the entry, what was expected, and what came
 */
export function readDeclaration(text: string): Declaration {
  const given = new Fields(JSON.parse(text), 'the declaration', ['skew_ms', 'late_ms', 'limits']);
  const limits = given.list('limits').map((one, at) => readLimit(one, `limits[${at}]`));
  const twice = limits.find(({ name }, at) => limits.findIndex((other) => other.name === name) < at);
  if (twice) throw new Error(`limits: expected names that occur once, got '${twice.name}' twice`);
  if (limits.length === 0) throw new Error('limits: expected at least one limit, got none');
  return {
    skewMs: given.number('skew_ms', 0, defaults.skew_ms),
    lateMs: given.number('late_ms', 0, defaults.late_ms),
    limits,
  };
}

const limitKeys = [
  ...['name', 'domain', 'descriptor', 'algorithm', 'limit', 'window_ms', 'burst', 'ttl_ms'],
  ...['slack', 'early', 'counts_refused', 'max_hits'],
];

function readLimit(value: unknown, path: string): Limit {
  const given = new Fields(value, path, limitKeys);
  const algorithm = given.oneOf('algorithm', Object.keys(algorithms) as Algorithm[]);
  const isHeld = algorithm === 'in_flight';
  const limit = given.number('limit', 0);
  const entries = Object.entries(given.record('descriptor')).map(([key, of]) => [key, String(of)] as const);
  for (const placeholder of isHeld ? ['{key}', '{holder}'] : ['{key}'])
    if (!entries.some(([, of]) => of.includes(placeholder)))
      throw new Error(`${path}.descriptor: expected a value with ${placeholder}, got ${JSON.stringify(entries)}`);
  return {
    name: given.text('name'),
    domain: given.text('domain'),
    entries,
    algorithm,
    limit,
    windowMs: isHeld ? 0 : given.number('window_ms', 1),
    burst: given.number('burst', 1, Math.max(1, limit)),
    ttlMs: isHeld ? given.number('ttl_ms', 1) : 0,
    slack: given.number('slack', 0, 0),
    early: given.number('early', 0, 0),
    countsRefused: given.flag('counts_refused'),
    maxHits: given.number('max_hits', 1, 1),
  };
}

/** The fields of a JSON object, read one by one. */
class Fields {
  readonly #of: Readonly<Record<string, unknown>>;
  readonly #path: string;

  constructor(value: unknown, path: string, known: readonly string[]) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new Error(`${path}: expected an object, got ${JSON.stringify(value)}`);
    this.#of = { ...value };
    this.#path = path;
    const unknown = Object.keys(this.#of).find((key) => !known.includes(key));
    if (unknown !== undefined) throw new Error(`${path}: expected keys of ${known.join(', ')}, got '${unknown}'`);
  }

  number(key: string, least: number, otherwise?: number): number {
    const value = this.#of[key] ?? otherwise;
    if (typeof value === 'number' && Number.isFinite(value) && value >= least) return value;
    return this.#fail(key, `a number from ${least}`);
  }

  text(key: string): string {
    const value = this.#of[key];
    return typeof value === 'string' && value !== '' ? value : this.#fail(key, 'a text');
  }

  flag(key: string): boolean {
    const value = this.#of[key] ?? false;
    return typeof value === 'boolean' ? value : this.#fail(key, 'true or false');
  }

  oneOf<T extends string>(key: string, words: readonly T[]): T {
    return words.find((word) => word === this.#of[key]) ?? this.#fail(key, `one of ${words.join(', ')}`);
  }

  list(key: string): readonly unknown[] {
    const value = this.#of[key];
    return Array.isArray(value) ? value : this.#fail(key, 'a list');
  }

  record(key: string): Readonly<Record<string, unknown>> {
    const value = this.#of[key];
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? { ...value }
      : this.#fail(key, 'an object');
  }

  #fail(key: string, expected: string): never {
    throw new Error(`${this.#path}.${key}: expected ${expected}, got ${JSON.stringify(this.#of[key])}`);
  }
}
