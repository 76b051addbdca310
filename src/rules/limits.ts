import {
  type Alignment,
  capacityOf,
  type Limit,
  MAX_COUNT,
  MAX_WINDOW_MS,
  type Unit,
  unitMs,
} from '../algorithms/limit.ts';
import { MAX_LOG_HITS } from '../algorithms/sliding-window-log.ts';
import { nearest } from '../nearest.ts';
import { type CalendarUnit, calendarUnits, createCalendar, isTimeZone } from './calendar.ts';
import { type Field, format } from './format.ts';
import type { Problem } from './problem.ts';
import type { Block } from './read.ts';

type LimitBlock = Block<'rate_limit'>;
type Key = keyof LimitBlock['values'];
type Name = Limit['algorithm'];

const fields = format.rate_limit;
const algorithmNames = fields.algorithm.choices;
const unitNames = fields.unit.choices;

/** The longest that a rule may hold a request. */
const MAX_DELAY_MS = unitMs.HOUR;

/** Keys that envoyproxy/ratelimit does not know. What it knows beside `unlimited`, it takes without a word. */
const ownKeys = (Object.keys(fields) as Key[]).filter((key) => (fields[key] as Field).own);

const durationPattern = new RegExp(fields.window.pattern); // that of max_delay, too
const windowUnitMs: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 };

/** Milliseconds of a duration; undefined where it is none. */
function durationMs(written: string): number | undefined {
  if (!durationPattern.test(written)) return undefined;
  const parts = [...written.matchAll(/(\d+)([a-z]+)/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (windowUnitMs[unit] ?? 0), 0);
}

/** The modes of a limit: its own, or those of its node. */
export interface NodeModes {
  readonly shadow: boolean;
  readonly quota: boolean;
}

/** Reads one `rate_limit` block. Undefined where it says `unlimited`, or where something is wrong: that is in `problems` then. */
export function buildLimit(block: LimitBlock, modes: NodeModes, problems: Problem[]): Limit | undefined {
  const { values } = block;
  const before = problems.length;
  const wrong = (key: Key, message: string): undefined => {
    problems.push({ ...block.place(key), severity: 'error', message });
    return undefined;
  };
  if (values.unlimited) {
    const unit = unitOf(values.unit);
    if (unit) wrong('unit', 'should not specify rate limit unit when unlimited: leave one of them out');
    for (const key of ownKeys) {
      if (values[key] !== undefined) wrong(key, `${key} means nothing when unlimited: leave one of them out`);
    }
    return undefined;
  }
  const window = readWindow(block, wrong);
  if (block.wrong.has('algorithm')) return undefined;
  const algorithm = algorithmNames.find((name) => name === (values.algorithm ?? 'fixed_window'));
  if (!algorithm)
    return wrong('algorithm', `unknown algorithm '${values.algorithm}'; ${expected(values.algorithm, algorithmNames)}`);
  for (const key of Object.keys(values) as Key[]) {
    // the reader keeps only keys of the format
    const { goesWith }: Field = fields[key];
    if (!goesWith || goesWith.includes(algorithm)) continue;
    wrong(key, `${key} means nothing with ${algorithm}; it goes with ${goesWith.join(' or ')}`);
  }
  if (!window || problems.length > before || block.wrong.size > 0) return undefined;
  const limit = assemble(algorithm, window, block, modes, wrong);
  if (limit) checkNumbers(limit, values, wrong);
  return problems.length > before ? undefined : limit;
}

type Wrong = (key: Key, message: string) => undefined;

interface Window {
  readonly unit: Unit | 'UNKNOWN';
  readonly unitMultiplier: number;
  readonly windowMs: number;
}

const unitOf = (written = ''): Unit | undefined =>
  unitNames.includes(written.toLowerCase()) ? (written.toUpperCase() as Unit) : undefined; // one of unitMs

function readWindow({ values, wrong: alreadyWrong }: LimitBlock, wrong: Wrong): Window | undefined {
  const { unit: written = '', unit_multiplier: unitMultiplier = 1, window } = values;
  if (window !== undefined) return readLength(window, values, wrong);
  const unit = unitOf(written);
  if (!unit) {
    if (['unit', 'window', 'unlimited'].some((key) => alreadyWrong.has(key))) return undefined;
    return wrong('unit', `invalid rate limit unit '${written}'; ${expected(written, unitNames, ', or a window')}`);
  }
  const windowMs = unitMs[unit] * unitMultiplier;
  if (unitMultiplier < 1 || windowMs > MAX_WINDOW_MS) {
    return wrong('unit_multiplier', `unit_multiplier must make a window of 1 unit to 100 years, got ${unitMultiplier}`);
  }
  return { unit, unitMultiplier, windowMs };
}

function readLength(written: string, values: LimitBlock['values'], wrong: Wrong): Window | undefined {
  if (values.unit !== undefined) return wrong('window', 'window and unit exclude one another: leave one of them out');
  if (values.unit_multiplier !== undefined)
    return wrong('unit_multiplier', 'unit_multiplier goes with unit, not with window');
  const windowMs = durationMs(written);
  if (windowMs === undefined || windowMs < 1 || windowMs > MAX_WINDOW_MS) {
    return wrong(
      'window',
      `window must be a length such as 500ms, 30s, 5m, 1h30m, 2d or 1w, up to 100 years, got '${written}'`,
    );
  }
  const named = (['DAY', 'HOUR', 'MINUTE', 'SECOND'] as const).find((unit) => windowMs % unitMs[unit] === 0);
  return { unit: named ?? 'UNKNOWN', unitMultiplier: named ? windowMs / unitMs[named] : 1, windowMs };
}

function assemble(
  algorithm: Name,
  window: Window,
  { values }: LimitBlock,
  modes: NodeModes,
  wrong: Wrong,
): Limit | undefined {
  const { name = '', requests_per_unit: requestsPerUnit = 0, soft = 0 } = values;
  const failing = readStoreFailure(values, wrong);
  const consistency = readConsistency(values, wrong);
  if (!failing || !consistency) return undefined;
  const common = {
    name,
    requestsPerUnit,
    soft,
    ...window,
    counter: `${algorithm}|${window.windowMs}`,
    ...failing,
    ...consistency,
    ...(modes.shadow && { shadow: true as const }),
    ...(modes.quota && { quota: true as const }),
  };
  switch (algorithm) {
    case 'fixed_window': {
      const aligned = readAlignment(window, values, wrong);
      return (
        aligned && {
          ...common,
          algorithm,
          alignment: aligned.alignment,
          counter: `${common.counter}${aligned.counterSuffix}`,
        }
      );
    }
    case 'sliding_window_log':
      return { ...common, algorithm, countDenied: values.count_denied ?? false };
    case 'sliding_window_counter': {
      const rounding = choice(values.rounding, 'rounding', fields.rounding.choices, wrong);
      return rounding && { ...common, algorithm, rounding };
    }
    case 'sliding_window_buckets': {
      const { buckets } = values;
      const { minimum, maximum } = fields.buckets;
      if (buckets === undefined || buckets < minimum || buckets > maximum || window.windowMs % buckets !== 0) {
        return wrong(
          'buckets',
          `buckets must be ${minimum} to ${maximum} and divide the window of ${window.windowMs} ms, got ${buckets ?? 'nothing'}`,
        );
      }
      return { ...common, algorithm, buckets, counter: `${common.counter}/${buckets}` };
    }
    case 'token_bucket': {
      const refill = choice(values.refill, 'refill', fields.refill.choices, wrong);
      const maxDelayMs = readMaxDelay(values, wrong);
      if (!refill || maxDelayMs === undefined) return undefined;
      return { ...common, algorithm, refill, maxDelayMs, burst: values.burst ?? requestsPerUnit };
    }
    case 'leaky_bucket': {
      const maxDelayMs = readMaxDelay(values, wrong);
      return maxDelayMs === undefined ? undefined : { ...common, algorithm, maxDelayMs, burst: values.burst ?? 1 };
    }
  }
}

function readConsistency(
  { consistency: written, soft = 0, max_delay: maxDelay }: LimitBlock['values'],
  wrong: Wrong,
): Pick<Limit, 'consistency'> | undefined {
  const consistency = choice(written, 'consistency', fields.consistency.choices, wrong);
  if (consistency !== 'leased') return consistency && {};
  if (soft > 0) return wrong('soft', 'soft and consistency: leased exclude one another: leave one of them out');
  if (maxDelay !== undefined)
    return wrong('max_delay', 'max_delay and consistency: leased exclude one another: leave one of them out');
  return { consistency };
}

function readStoreFailure(
  { on_store_failure: written, local_share: localShare, requests_per_unit: requestsPerUnit = 0 }: LimitBlock['values'],
  wrong: Wrong,
): Pick<Limit, 'onStoreFailure' | 'localShare'> | undefined {
  const policy = choice(written, 'on_store_failure', fields.on_store_failure.choices, wrong);
  if (!policy) return undefined;
  if (localShare !== undefined && policy !== 'local')
    return wrong('local_share', `local_share goes with on_store_failure: local, not with ${policy}`);
  if (localShare !== undefined && (localShare < 1 || localShare > Math.max(requestsPerUnit, 1))) {
    return wrong(
      'local_share',
      `local_share must be 1 to requests_per_unit, so that each process may pass something, got ${localShare}`,
    );
  }
  if (policy === 'error') return {};
  return { onStoreFailure: policy, ...(localShare !== undefined && { localShare }) };
}

/** What a mistyped word most likely is; else all that it may be. */
function expected(written: string | undefined, names: readonly string[], more = ''): string {
  const meant = nearest(written ?? '', names);
  return meant === undefined ? `expected one of ${names.join(', ')}${more}` : `did you mean '${meant}'?`;
}

function choice<const C extends string>(
  written: string | undefined,
  key: Key,
  choices: readonly [C, ...C[]],
  wrong: Wrong,
): C | undefined {
  const found = choices.find((one) => one === (written ?? choices[0]));
  return found ?? wrong(key, `${key} must be ${choices.join(' or ')}, got '${written}'`);
}

function readMaxDelay({ max_delay: written }: LimitBlock['values'], wrong: Wrong): number | undefined {
  if (written === undefined) return 0;
  const ms = durationMs(written);
  if (ms !== undefined && ms <= MAX_DELAY_MS) return ms;
  return wrong('max_delay', `max_delay must be a time such as 300ms or 2s, up to 1h, got '${written}'`);
}

function readAlignment(
  { unit, unitMultiplier }: Window,
  { alignment, timezone }: LimitBlock['values'],
  wrong: Wrong,
): { readonly alignment: Alignment; readonly counterSuffix: string } | undefined {
  const chosen = choice(alignment, 'alignment', fields.alignment.choices, wrong);
  if (!chosen) return undefined;
  if (chosen !== 'calendar') {
    if (timezone !== undefined) return wrong('timezone', `timezone goes with alignment: calendar, not with ${chosen}`);
    return { alignment: chosen, counterSuffix: chosen === 'epoch' ? '' : '@first_hit' };
  }
  const zone = timezone ?? 'UTC';
  if (!isTimeZone(zone))
    return wrong('timezone', `timezone must be a name of the IANA database such as Europe/Berlin, got '${zone}'`);
  if (!isCalendarUnit(unit) || unitMultiplier !== 1) {
    const wanted = Object.values(calendarUnits).join(', ');
    return wrong(
      'alignment',
      `alignment: calendar goes with one unit: ${wanted}; got ${unitMultiplier} × ${unit.toLowerCase()}`,
    );
  }
  return { alignment: createCalendar(unit, zone), counterSuffix: `@${zone}` };
}

const isCalendarUnit = (unit: string): unit is CalendarUnit => Object.hasOwn(calendarUnits, unit);

/** Keeps every product of the algorithms an exact integer, and every script bounded. */
function checkNumbers(limit: Limit, values: LimitBlock['values'], wrong: Wrong): void {
  const { requestsPerUnit, windowMs, soft } = limit;
  const capacity = capacityOf(limit);
  if (limit.algorithm === 'sliding_window_log' && capacity > MAX_LOG_HITS) {
    wrong(
      'requests_per_unit',
      `a sliding_window_log remembers at most ${MAX_LOG_HITS} hits (soft ones included), got ${capacity}`,
    );
  }
  if (limit.algorithm === 'sliding_window_counter') checkProduct(capacity * windowMs, 'requests_per_unit', wrong);
  if (!('burst' in limit)) return;
  if (requestsPerUnit < 1)
    wrong('requests_per_unit', `requests_per_unit must be at least 1 with ${limit.algorithm}, got ${requestsPerUnit}`);
  if (limit.burst < 1) wrong('burst', `burst must be at least 1, got ${limit.burst}`);
  if (soft > 0 && limit.maxDelayMs > 0)
    wrong('max_delay', 'max_delay and soft exclude one another: leave one of them out');
  const isBurstWritten = values.burst !== undefined;
  const products: readonly (readonly [number, Key])[] = [
    [requestsPerUnit * windowMs, 'requests_per_unit'],
    [(limit.burst + 1) * windowMs, isBurstWritten ? 'burst' : 'requests_per_unit'],
    [(capacity + 1) * windowMs, 'soft'],
    [(capacity + 1) * windowMs + limit.maxDelayMs * requestsPerUnit, 'max_delay'],
  ];
  const tooLarge = products.find(([product]) => product > MAX_COUNT);
  if (tooLarge) checkProduct(...tooLarge, wrong);
}

function checkProduct(product: number, key: Key, wrong: Wrong): void {
  if (product <= MAX_COUNT) return;
  wrong(
    key,
    `hits times milliseconds of the window must stay below 2^53 to be exact, got ${product}; take a smaller limit or window`,
  );
}
