import { durationMs } from '../../engine/algorithms/limit.ts';
import { parseAmount, showMoney } from '../../engine/algorithms/money.ts';
import { isTtl } from '../../engine/holds/claim.ts';
import { isRateLimit, type Limit, nominalCapacity } from '../../engine/holds/limits.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { choiceReader } from '../../engine/rules/read/choice.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { lapses, overruns, type ReservationLimit } from './reservation.ts';

/** The limit, with its hits reserved first if the rule says so. */
export function readReserve(
  { values, place }: Block<'rate_limit'>,
  { limit: inner, hasId }: { readonly limit: Limit | undefined; readonly hasId: boolean },
  problems: Problems,
): Limit | undefined {
  const { reserve } = values;
  if (!reserve || (inner && !isRateLimit(inner))) return inner; // it goes with no others
  const before = problems.all.length;
  for (const key of ['charge', 'consistency', 'max_delay'] as const)
    if (!allowedBeside[key].includes(values[key]))
      problems.error(place(key), `${key} cannot be used with reserve: remove one of them`);
  if (values.on_store_failure === 'local')
    problems.error(
      place('on_store_failure'),
      'on_store_failure: local cannot be used with reserve: another process may get the commit; use error, allow or deny',
    );
  if (!hasId)
    problems.error(
      place('reserve'),
      'reserve requires the id of the request: put not_counted: hold on this node or one above',
    );
  const report = (key: keyof typeof reserve.values, message: string): undefined =>
    problems.error(reserve.place(key), message);
  const read = choiceReader(reserve.values, report);
  const { ttl = '', estimate: written } = reserve.values;
  const ttlMs = durationMs(ttl);
  if (!isTtl(ttlMs) && !reserve.invalid.has('ttl'))
    report('ttl', `ttl must be a time such as 60s or 5m, from 100ms to 1d, got '${ttl}'`);
  const onOverrun = read('on_overrun', overruns);
  const onLapse = read('on_lapse', lapses);
  const estimate = inner && written !== undefined ? readEstimate(written, inner, report) : undefined;
  if (!inner || !isTtl(ttlMs) || !onOverrun || !onLapse) return undefined;
  if (reserve.invalid.size > 0 || problems.all.length > before) return undefined;
  const { requestsPerUnit, soft, windowMs, currency } = inner;
  return {
    currency,
    algorithm: 'reservation',
    counter: `${inner.counter}+reserve`,
    requestsPerUnit,
    soft,
    windowMs,
    inner,
    ttlMs,
    onOverrun,
    onLapse,
    estimate,
  } satisfies ReservationLimit;
}

/** Hits, or billionths of the budget's currency. */
function readEstimate(
  written: string,
  limit: Limit,
  report: (key: 'estimate', message: string) => undefined,
): ReservationLimit['estimate'] {
  if (written === 'p95') return written;
  const { currency, soft } = limit;
  const most = nominalCapacity(limit) + soft;
  const money = currency === undefined ? undefined : parseAmount(written);
  const ofCurrency = typeof money === 'object' && money.currency === currency ? money.billionths : Number.NaN;
  const hits = currency === undefined ? Number(written) : ofCurrency;
  if (Number.isInteger(hits) && hits >= 1 && hits <= most) return hits;
  return report(
    'estimate',
    currency === undefined
      ? `estimate must be p95, or 1 to the ${most} hits that fit into the limit, got '${written}'`
      : `estimate must be p95, or an amount up to the budget of ${showMoney(most, currency)}, got '${written}'`,
  );
}

/** Values of these keys that `reserve` allows beside it. */
const allowedBeside: Readonly<Record<'charge' | 'consistency' | 'max_delay', readonly (string | undefined)[]>> = {
  charge: [undefined, 'accepted'],
  consistency: [undefined, 'strict'],
  max_delay: [undefined],
};
