import { durationMs } from '../../engine/algorithms/limit.ts';
import { parseAmount, showMoney } from '../../engine/algorithms/money.ts';
import { isTtl } from '../../engine/holds/claim.ts';
import { isRateLimit, type Limit, nominalCapacity } from '../../engine/holds/limits.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { lapses, overruns, type ReservationLimit } from './reservation.ts';

/** The limit, with its hits reserved first if the rule says so. */
export function readReserve(
  { values, place }: Block<'rate_limit'>,
  { limit: inner, hasId }: { readonly limit: Limit; readonly hasId: boolean },
  problems: Problems,
): Limit | undefined {
  const { reserve } = values;
  if (!reserve || !isRateLimit(inner)) return inner; // it goes with no others
  if (reserve.invalid.size > 0) return undefined; // reported already
  const report = (key: 'ttl' | 'on_overrun' | 'on_lapse' | 'estimate', message: string): undefined =>
    problems.error(reserve.place(key), message);
  const other = (['charge', 'consistency', 'max_delay'] as const).find(
    (key) => !allowedBeside[key].includes(values[key]),
  );
  if (other) return problems.error(place(other), `${other} cannot be used with reserve: remove one of them`);
  if (values.on_store_failure === 'local')
    return problems.error(
      place('on_store_failure'),
      'on_store_failure: local cannot be used with reserve: another process may get the commit; use error, allow or deny',
    );
  if (!hasId)
    return problems.error(
      place('reserve'),
      'reserve requires the id of the request: put not_counted: hold on this node or one above',
    );
  const { ttl = '', on_overrun: written = overruns[0], on_lapse: lapse = lapses[0], estimate } = reserve.values;
  const ttlMs = durationMs(ttl);
  if (!isTtl(ttlMs)) return report('ttl', `ttl must be a time such as 60s or 5m, from 100ms to 1d, got '${ttl}'`);
  const onOverrun = overruns.find((one) => one === written);
  if (!onOverrun) return report('on_overrun', `on_overrun must be ${overruns.join(' or ')}, got '${written}'`);
  const onLapse = lapses.find((one) => one === lapse);
  if (!onLapse) return report('on_lapse', `on_lapse must be ${lapses.join(' or ')}, got '${lapse}'`);
  const most = nominalCapacity(inner) + inner.soft;
  const reserved = estimate === undefined || estimate === 'p95' ? estimate : readEstimate(estimate, inner);
  if (typeof reserved === 'number' && !(Number.isInteger(reserved) && reserved >= 1 && reserved <= most))
    return report(
      'estimate',
      inner.currency === undefined
        ? `estimate must be p95, or 1 to the ${most} hits that fit into the limit, got '${estimate}'`
        : `estimate must be p95, or an amount up to the budget of ${showMoney(most, inner.currency)}, got '${estimate}'`,
    );
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
    estimate: reserved,
  } satisfies ReservationLimit;
}

/** Hits, or billionths of the budget's currency; not a number if they are in another unit. */
function readEstimate(written: string, { currency }: Limit): number {
  if (currency === undefined) return Number(written);
  const money = parseAmount(written);
  return typeof money !== 'string' && money.currency === currency ? money.billionths : Number.NaN;
}

/** Values of these keys that `reserve` allows beside it. */
const allowedBeside: Readonly<Record<'charge' | 'consistency' | 'max_delay', readonly (string | undefined)[]>> = {
  charge: [undefined, 'accepted'],
  consistency: [undefined, 'strict'],
  max_delay: [undefined],
};
