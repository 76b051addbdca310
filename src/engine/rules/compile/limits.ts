import { createHash } from 'node:crypto';
import { nearest } from '../../../base/nearest.ts';
import { limitReaders, outerReaders } from '../../../parts/limit-readers.ts';
import { besideRedis } from '../../../parts/stores.ts';
import { DEFAULT_ALGORITHM } from '../../algorithms/index.ts';
import {
  type AlgorithmValues,
  type Calendar,
  durationMs,
  type LimitNumbers,
  type LimitPolicy,
  type LimitSource,
  MAX_LIMIT,
  MAX_WINDOW_MS,
  type Unit,
  unitMs,
} from '../../algorithms/limit.ts';
import { parseAmount } from '../../algorithms/money.ts';
import { isTtl, type SiteSplit } from '../../holds/claim.ts';
import {
  algorithmFor,
  canBlock,
  findNamedRow,
  isRateLimit,
  isReservation,
  isShared,
  type Limit,
  type NamedAlgorithm,
  unitOfNamed,
} from '../../holds/limits.ts';
import type { RuleLimit } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { choiceReader } from '../read/choice.ts';
import { dividing, type Field, format, referenceKeys } from '../read/format.ts';
import { type Problems, shown } from '../read/problem.ts';
import { readAnchor, type WindowLength } from '../time/anchor.ts';
import { calendarUnits, createCalendar, isTimeZone } from '../time/calendar.ts';

type LimitBlock = Block<'rate_limit'>;
type Key = keyof LimitBlock['values'];

const fields = format.rate_limit;
const algorithmNames = fields.algorithm.choices;
const unitNames = fields.unit.choices;

/** Keys that envoyproxy/ratelimit does not have. It accepts its own keys together with `unlimited` silently. */
const ownKeys = (Object.keys(fields) as Key[]).filter((key) => !referenceKeys.has(key));

/** The modes of a limit: its own, or those of its node. */
export interface NodeModes {
  readonly shadow: boolean;
  readonly quota: boolean;
  /** Requests have an id: an entry with `not_counted: hold`. */
  readonly hasId?: boolean;
  /** Division of limits that sites share; absent if this is the only site. */
  readonly split?: SiteSplit | undefined;
}

/** Reads one `rate_limit` block. Undefined if it says `unlimited`, or is invalid: `problems` has the reasons then. */
export function buildLimit(block: LimitBlock, modes: NodeModes, problems: Problems): RuleLimit | undefined {
  const { values } = block;
  const before = problems.all.length;
  const report: LimitProblem = (key, message) => problems.error(block.place(key), message);
  if (values.unlimited) return refuseBesideUnlimited(values, report);
  const algorithm = readAlgorithm(block, report);
  const hasWindow = algorithm === undefined || unitOfNamed(algorithm) === 'hits';
  const window = hasWindow ? readWindow(block, report) : readTtl(block, algorithm, report);
  const policy = readPolicy(block, modes, report);
  if (policy?.onStoreFailure === 'local' && !hasWindow)
    report(
      'on_store_failure',
      `on_store_failure: local cannot be used with ${algorithm}: another process may get the release; use error, allow or deny`,
    );
  const fitting = algorithm ? withoutUnfit(block, algorithm, report) : block;
  const limit = readLimit(fitting, { algorithm, window, policy, modes }, problems);
  if (!window || !limit || !policy || problems.all.length > before || block.invalid.size > 0) return undefined;
  const { windowMs: _, ...ofWindow } = window;
  const { name = '', per_replica: each, requests_per_unit: all = 0 } = values;
  const replicas = each === undefined ? undefined : { each, count: all / each };
  return { limit, label: { name, ...ofWindow, ...(replicas && { replicas }) }, policy };
}

function refuseBesideUnlimited(values: LimitBlock['values'], report: LimitProblem): undefined {
  if (parseUnit(values.unit)) report('unit', 'should not specify rate limit unit when unlimited: remove one of them');
  for (const key of ownKeys)
    if (values[key] !== undefined) report(key, `${key} cannot be used when unlimited: remove one of them`);
}

function readAlgorithm({ values, invalid }: LimitBlock, report: LimitProblem): NamedAlgorithm | undefined {
  if (invalid.has('algorithm')) return undefined; // reported already
  const { share, algorithm: written = share || invalid.has('share') ? 'token_bucket' : DEFAULT_ALGORITHM } = values;
  const found = algorithmNames.find((name) => name === written);
  return found ?? report('algorithm', `unknown algorithm '${written}'; ${expected(written, algorithmNames)}`);
}

/** The block without the keys that the algorithm does not have, which are reported. */
function withoutUnfit(block: LimitBlock, algorithm: NamedAlgorithm, report: LimitProblem): LimitBlock {
  const fitting = Object.entries(block.values).filter(([name]) => {
    const key = name as Key; // the reader drops keys that the format does not have
    const { goesWith }: Field = fields[key];
    if (!goesWith || goesWith.includes(algorithm)) return true;
    report(key, `${key} cannot be used with ${algorithm}, only with ${goesWith.join(' or ')}`);
    return false;
  });
  return { ...block, values: Object.fromEntries(fitting) };
}

/** Reads the numbers of a limit, and the keys that change what it counts. Each is read even if another is invalid. */
function readLimit(
  block: LimitBlock,
  {
    algorithm,
    window,
    policy,
    modes: { hasId = false, split },
  }: {
    readonly algorithm: NamedAlgorithm | undefined;
    readonly window: WindowLength | undefined;
    readonly policy: LimitPolicy | undefined;
    readonly modes: NodeModes;
  },
  problems: Problems,
): Limit | undefined {
  const { values } = block;
  const report: LimitProblem = (key, message) => problems.error(block.place(key), message);
  const isUnread =
    [...setsRate, ...(algorithm ? findNamedRow(algorithm).keys : [])].some((key) => block.invalid.has(key)) ||
    (values.per_replica !== undefined && values.requests_per_unit === undefined); // reported already
  const rate = isUnread ? undefined : readRate(values, report);
  const { soft = 0 } = values;
  const plain =
    rate && algorithm && window
      ? readNumbers(
          algorithm,
          { ...rate, soft, windowMs: window.windowMs },
          createLimitSource(block, { window, hasId }, problems),
        )
      : undefined;
  let [limit, isWrong] = [plain, false];
  const change = (readers: typeof limitReaders): void => {
    for (const readKey of Object.values(readers)) {
      const read = readKey(block, { limit, hasId, split }, problems);
      isWrong ||= !read;
      limit = read ?? limit;
    }
  };
  change(limitReaders);
  if (limit && policy) limit = countedBy(limit, policy);
  change(outerReaders);
  if (isWrong || !limit || !rate) return undefined;
  if (values.share && !isShared(limit)) report('share', NO_SHARES);
  const most = Math.max(rate.requestsPerUnit, soft);
  if (most > MAX_UINT32 && !isRateLimit(limit) && !isReservation(limit) && !canBlock(limit))
    report(
      'requests_per_unit',
      `${algorithm}${values.share ? ' with share' : ''} counts at most ${MAX_UINT32} hits, got ${most}`,
    );
  for (const key of ['on_overload', 'local_share'] as const)
    if (values[key] !== undefined && !isRateLimit(limit))
      report(key, `${key} cannot be used here, since no process can count a part of the limit by itself`);
  return limit;
}

/** The keys from which the hits that pass in a window are known. */
const setsRate = ['requests_per_unit', 'soft', 'budget', 'per_replica', 'replicas'] as const;

/** Why a limit cannot be shared, in a build without that part. */
export const NO_SHARES = 'share requires the part fair-shares, which was left out of this build';

/** Largest limit of algorithms whose products grow with the number of children or sites. */
const MAX_UINT32 = 0xffff_ffff;

/** What budgets cannot have: a number of hits beside the money, or hits that another process counts. */
const besideBudget = ['requests_per_unit', 'soft', 'burst', 'local_share', 'share', ...dividing] as const;

/** The hits, or the money in billionths, that pass in a window. */
function readRate(
  values: LimitBlock['values'],
  report: LimitProblem,
): Pick<LimitNumbers, 'requestsPerUnit' | 'currency'> | undefined {
  const { requests_per_unit: requestsPerUnit = 0, soft = 0, budget } = values;
  if (requestsPerUnit + soft > MAX_LIMIT)
    return report('soft', `requests_per_unit and soft together must be at most ${MAX_LIMIT} to be exact`);
  if (budget === undefined) return { requestsPerUnit };
  const others = besideBudget.filter((key) => values[key] !== undefined);
  for (const other of others) report(other, `${other} cannot be used with budget: remove one of them`);
  const money = parseAmount(budget);
  if (typeof money === 'string')
    return report('budget', `budget must be an amount such as 500.00 USD, got '${budget}': ${money}`);
  if (others.length > 0) return undefined;
  return { requestsPerUnit: money.billionths, currency: money.currency };
}

const parseUnit = (written = ''): Unit | undefined =>
  unitNames.includes(written.toLowerCase()) ? (written.toUpperCase() as Unit) : undefined; // one of unitMs

function readWindow({ values, invalid }: LimitBlock, report: LimitProblem): WindowLength | undefined {
  const { unit: written = '', unit_multiplier: unitMultiplier = 1, window } = values;
  if (window !== undefined) return readLength(window, values, report);
  const unit = parseUnit(written);
  if (!unit) {
    if (['unit', 'window', 'unlimited'].some((key) => invalid.has(key))) return undefined;
    return report('unit', `invalid rate limit unit '${written}'; ${expected(written, unitNames, ', or a window')}`);
  }
  const windowMs = unitMs[unit] * unitMultiplier;
  if (unitMultiplier < 1 || windowMs > MAX_WINDOW_MS) {
    return report(
      'unit_multiplier',
      `unit_multiplier must make a window of 1 unit to 100 years, got ${unitMultiplier}`,
    );
  }
  return { unit, unitMultiplier, windowMs };
}

/** The time that a limit without a window keeps its hits: a ttl, or always. */
function readTtl(block: LimitBlock, algorithm: NamedAlgorithm, report: LimitProblem): WindowLength | undefined {
  const { values } = block;
  const hasTtl = findNamedRow(algorithm).keys.includes('ttl');
  for (const key of ['unit', 'unit_multiplier', 'window'] as const)
    if (values[key] !== undefined)
      report(key, `${key} cannot be used with ${algorithm}, which has ${hasTtl ? 'a ttl' : 'no window'}`);
  if (!hasTtl) return { unit: 'UNKNOWN', unitMultiplier: 1, windowMs: MAX_WINDOW_MS };
  if (values.ttl === undefined) {
    if (block.invalid.has('ttl')) return undefined;
    return report(
      'ttl',
      `${algorithm} requires a ttl longer than any request lasts: after that time a slot is free again`,
    );
  }
  const windowMs = durationMs(values.ttl);
  if (!isTtl(windowMs))
    return report('ttl', `ttl must be a time such as 30s or 5m, from 100ms to 1d, got '${values.ttl}'`);
  return { unit: 'UNKNOWN', unitMultiplier: 1, windowMs };
}

function readLength(written: string, values: LimitBlock['values'], report: LimitProblem): WindowLength | undefined {
  if (values.unit !== undefined) return report('window', 'window cannot be used with unit: remove one of them');
  if (values.unit_multiplier !== undefined)
    return report('unit_multiplier', 'unit_multiplier goes with unit, not with window');
  const windowMs = durationMs(written);
  if (windowMs === undefined || windowMs < 1 || windowMs > MAX_WINDOW_MS) {
    return report(
      'window',
      `window must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '${written}'`,
    );
  }
  const named = (['DAY', 'HOUR', 'MINUTE', 'SECOND'] as const).find((unit) => windowMs % unitMs[unit] === 0);
  return { unit: named ?? 'UNKNOWN', unitMultiplier: named ? windowMs / unitMs[named] : 1, windowMs };
}

/** How a limit counts and fails. May report several problems; undefined if a value is none of its choices. */
function readPolicy(
  { values, invalid }: LimitBlock,
  { shadow, quota }: NodeModes,
  report: LimitProblem,
): LimitPolicy | undefined {
  const read = choiceReader(values, report);
  const { requests_per_unit: requestsPerUnit = 0, soft = 0, max_delay: maxDelay, local_share: localShare } = values;
  const onStoreFailure = read('on_store_failure', fields.on_store_failure.choices);
  const onOverload = read('on_overload', fields.on_overload.choices);
  const mostShares = invalid.has('requests_per_unit') ? MAX_LIMIT : Math.max(requestsPerUnit, 1);
  if (localShare !== undefined && (localShare < 1 || localShare > mostShares))
    report(
      'local_share',
      `local_share must be 1 to requests_per_unit, so that each process may pass something, got ${localShare}`,
    );
  const consistency = read('consistency', fields.consistency.choices);
  const isLeased = consistency === 'leased';
  if (isLeased && !besideRedis.leases)
    report('consistency', 'consistency: leased requires the part leases, which was left out of this build');
  if (isLeased && soft > 0) report('soft', 'soft cannot be used with consistency: leased: remove one of them');
  if (isLeased && maxDelay !== undefined)
    report('max_delay', 'max_delay cannot be used with consistency: leased: remove one of them');
  const charge = read('charge', fields.charge.choices);
  if (isLeased && charge === 'always')
    report('charge', 'charge: always cannot be used with consistency: leased: remove one of them');
  const onChange = read('on_change', fields.on_change.choices);
  const notify = values.notify && readNotify(values.notify, report);
  if (!onStoreFailure || !onOverload || !consistency || !charge || !onChange) return undefined;
  return {
    ...(onStoreFailure !== 'error' && { onStoreFailure }),
    ...(onOverload === 'error' && { onOverload }),
    ...(localShare !== undefined && { localShare }),
    ...(isLeased && { consistency }),
    ...(charge === 'always' && { charge }),
    ...(onChange === 'reset' && { onChange }),
    ...(notify && { notify }),
    ...(shadow && { shadow }),
    ...(quota && { quota }),
  };
}

const MAX_SHARES = 8;

/** Percentages of the limit, in order. */
function readNotify(written: readonly string[], report: LimitProblem): readonly number[] | undefined {
  const wrong = written.find((text) => !new RegExp(fields.notify.pattern).test(text));
  if (wrong !== undefined)
    return report('notify', `notify must list percentages of the limit from 1% to 100%, got '${shown(wrong)}'`);
  const percentages = [...new Set(written.map((text) => Number.parseInt(text, 10)))].sort((one, other) => one - other);
  if (percentages.length === written.length && written.length <= MAX_SHARES) return percentages;
  return report('notify', `notify must list at most ${MAX_SHARES} different percentages, got ${written.join(', ')}`);
}

/** @param common  the numbers that every limit has, except its counter */
function readNumbers(
  algorithm: NamedAlgorithm,
  common: Omit<LimitNumbers, 'counter'>,
  source: LimitSource,
): Limit | undefined {
  const row = findNamedRow(algorithm);
  const unit = common.currency === undefined ? '' : `${common.currency}|`; // counts in another unit are of no use
  const version = row.state.version === undefined ? '' : `.${row.state.version}`;
  const counter = `${algorithm}${version}|${unit}${common.windowMs}`;
  return row.parse({ ...common, counter }, source) as Limit | undefined; // parsed by the row of this algorithm
}

/**
 * With `on_change: reset` the counter's name includes the limit's numbers, so a limit with other numbers starts with
 * new counters. All instances derive the same name from the same numbers.
 */
function countedBy(limit: Limit, { onChange }: LimitPolicy): Limit {
  if (onChange !== 'reset') return limit;
  const numbers = [limit.requestsPerUnit, limit.soft, algorithmFor(limit).list(limit)];
  const generation = createHash('sha256').update(JSON.stringify(numbers)).digest('hex').slice(0, 8);
  return { ...limit, counter: `${limit.counter}~${generation}` };
}

/** The likeliest word for a mistyped one; else all that are valid. */
function expected(written: string | undefined, names: readonly string[], more = ''): string {
  const meant = nearest(written ?? '', names);
  return meant === undefined ? `expected one of ${names.join(', ')}${more}` : `did you mean '${meant}'?`;
}

type LimitProblem = (key: Key, message: string) => undefined;

const MAX_DELAY_MS = unitMs.HOUR;

function createLimitSource(
  { values: written, place }: LimitBlock,
  { window, hasId }: { readonly window: WindowLength; readonly hasId: boolean },
  problems: Problems,
): LimitSource {
  const { alignment, ...others } = written;
  const values: AlgorithmValues & typeof others = typeof alignment === 'string' ? { ...others, alignment } : others;
  const isBudget = written.budget !== undefined;
  const report: LimitProblem = (key, message) =>
    isBudget && key === 'requests_per_unit'
      ? problems.error(place('budget'), `${message}; a budget is counted in billionths of its currency`)
      : problems.error(place(key), message);
  return {
    values,
    hasId,
    report,
    choice: choiceReader(values, report),
    maxDelayMs: () => readMaxDelay(values, report),
    calendar: () => readCalendar(window, values, report),
    anchored: () => (typeof alignment === 'object' ? readAnchor(alignment, window, problems) : undefined),
  };
}

function readMaxDelay({ max_delay: written }: LimitBlock['values'], report: LimitProblem): number | undefined {
  if (written === undefined) return 0;
  const ms = durationMs(written);
  if (ms !== undefined && ms <= MAX_DELAY_MS) return ms;
  return report('max_delay', `max_delay must be a time such as 300ms or 2s, up to 1h, got '${written}'`);
}

function readCalendar(
  { unit, unitMultiplier }: WindowLength,
  { timezone: timeZone = 'UTC' }: LimitBlock['values'],
  report: LimitProblem,
): { readonly calendar: Calendar; readonly timeZone: string } | undefined {
  if (!isTimeZone(timeZone))
    return report('timezone', `timezone must be a name of the IANA database such as Europe/Berlin, got '${timeZone}'`);
  const calendarUnit = calendarUnits.find((one) => one === unit);
  if (calendarUnit && unitMultiplier === 1) return { calendar: createCalendar(calendarUnit, timeZone), timeZone };
  const units = calendarUnits.join(', ').toLowerCase();
  return report(
    'alignment',
    `alignment: calendar goes with one unit: ${units}; got ${unitMultiplier} × ${unit.toLowerCase()}`,
  );
}
