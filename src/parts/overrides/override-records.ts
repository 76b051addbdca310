import type { Clock } from '../../base/clock.ts';
import { shareRuns } from '../../base/later.ts';
import { fields, flag, listOf, oneOf, text, whole } from '../../base/shape.ts';
import { type Unit, unitMs } from '../../engine/algorithms/limit.ts';
import { type Records, removeExpired } from '../../engine/backends/records.ts';
import {
  type OverrideName,
  type Overrides,
  overrideKey,
  type StandingOverride,
} from '../../engine/decide/overrides.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { valid } from '../../operate/admin/schema.ts';

const MAP = 'overrides';

/** The most overrides at a time. */
const MAX_OVERRIDES = 10_000;
/** The most with wildcards: requests are compared with each that has their keys. */
const MAX_WILDCARDS = 100;

/** The interval at which the records are read: other instances may have changed them. */
export const FOLLOW_INTERVAL_MS = 500;

interface OverrideRecordsOptions {
  readonly records: Records;
  /** The overrides that this process follows. */
  readonly overrides: Overrides;
  readonly clock: Clock;
  /** Has every process that answers requests follow these overrides. */
  readonly spread: (overrides: readonly StandingOverride[]) => Promise<unknown>;
  /** Called once for a record that is not an override, which has no effect. */
  readonly onForeign: (key: string, reason: string) => void;
  /** Those processes follow none yet. */
  readonly isEmpty: boolean;
}

export type OverrideRecords = ReturnType<typeof createOverrideRecords>;

/** Stores overrides in the records, and has every process of this instance follow them. */
export function createOverrideRecords(options: OverrideRecordsOptions) {
  const { records, overrides, clock, spread, onForeign } = options;
  let { isEmpty } = options;
  let lastPut: Promise<void> = Promise.resolve();
  /** The records that are no overrides, which are named once. */
  let known: ReadonlyMap<string, string> = new Map();
  /** Reads the records and follows them. While they cannot be read, the overrides read last apply. */
  const follow = shareRuns(async (): Promise<readonly StandingOverride[]> => {
    const { found, foreign, expired } = sortRecords(await records.all(MAP), clock());
    await removeExpired(records, MAP, expired);
    for (const [key, reason] of foreign) if (known.get(key) !== reason) onForeign(key, reason);
    known = foreign;
    overrides.replace(found);
    if (found.length > 0 || !isEmpty) await spread(found);
    isEmpty = found.length === 0;
    return found;
  });
  const store = (override: StandingOverride): Promise<void> =>
    records.put(MAP, overrideKey(override), JSON.stringify(override));
  const remove = async (override: OverrideName): Promise<void> => {
    await records.remove(MAP, overrideKey(override));
    await follow();
  };
  const putOne = async (override: StandingOverride): Promise<void> => {
    const before = await follow();
    refuseTooMany(override, before);
    await store(override);
    const after = await follow();
    if (before.some((one) => overrideKey(one) === overrideKey(override))) return;
    try {
      refuseTooMany(override, after);
    } catch (error) {
      await remove(override); // other instances have stored theirs meanwhile
      throw error;
    }
  };
  return {
    follow,
    /** Stores overrides that the deciders already follow. */
    async restore(standing: readonly StandingOverride[]): Promise<void> {
      for (const override of standing) await store(override);
      await follow();
    },
    /** One after the other, so that several at once keep to the bounds. */
    put(override: StandingOverride): Promise<void> {
      const own = lastPut.then(() => putOne(override));
      lastPut = own.catch(() => {});
      return own;
    },
    remove,
  };
}

/** @throws ApiProblem  409 */
function refuseTooMany(override: StandingOverride, all: readonly StandingOverride[]): void {
  const key = overrideKey(override);
  const others = all.filter((one) => overrideKey(one) !== key);
  if (others.length >= MAX_OVERRIDES)
    throw new ApiProblem(409, `at most ${MAX_OVERRIDES} overrides are allowed: remove one first`);
  if (override.wildcard && others.filter(({ wildcard }) => wildcard).length >= MAX_WILDCARDS)
    throw new ApiProblem(409, `at most ${MAX_WILDCARDS} overrides may have wildcards: remove one first`);
}

/** The overrides among records, why others are none, and when those that are over ended. */
function sortRecords(all: Iterable<readonly [key: string, written: string]>, nowMs: number) {
  const found: StandingOverride[] = [];
  const foreign = new Map<string, string>();
  const expired = new Map<string, number>();
  for (const [key, written] of all) {
    const override = parseOverride(written);
    if (typeof override === 'string') foreign.set(key, override);
    else if (override.untilMs > nowMs) found.push(override);
    else expired.set(key, override.untilMs);
  }
  return { found, foreign, expired };
}

const record = fields(
  {
    domain: text,
    entries: listOf(fields({ key: text, value: text })),
    effect: fields(
      { kind: oneOf('limit', 'block', 'exempt') },
      { requestsPerUnit: whole, unit: oneOf(...(Object.keys(unitMs) as Unit[])) }, // unitMs has only units as keys
    ),
    untilMs: whole,
    by: text,
    reason: text,
  },
  { wildcard: flag },
);

/** An override, or the reason why a record is none: another program may have written it. */
function parseOverride(written: string): StandingOverride | string {
  try {
    const { wildcard, effect, ...named } = valid(record, JSON.parse(written), 'the record');
    const { kind, requestsPerUnit, unit } = effect;
    const override = { ...named, ...(wildcard && { wildcard }) };
    if (kind !== 'limit') return { ...override, effect: { kind } };
    if (requestsPerUnit === undefined || unit === undefined) return 'expected requestsPerUnit and unit, got no limit';
    return { ...override, effect: { kind, requestsPerUnit, unit } };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
