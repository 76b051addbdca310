import { type Limit, nominalCapacity } from '../../algorithms/index.ts';
import { overruns, type ReservationLimit } from '../../algorithms/reservation.ts';
import type { Problems } from '../read/problem.ts';
import type { Block } from '../read/read.ts';
import { durationMs, isTtl } from '../time/duration.ts';

/** The limit, with its hits reserved first if the rule says so. */
export function readReserve(
  { values, place }: Block<'rate_limit'>,
  inner: Limit,
  hasId: boolean,
  problems: Problems,
): Limit | undefined {
  const { reserve } = values;
  if (!reserve) return inner;
  if (reserve.invalid.size > 0) return undefined; // reported already
  const report = (key: 'ttl' | 'on_overrun' | 'estimate', message: string): undefined =>
    problems.error(reserve.place(key), message);
  const other = (['charge', 'consistency', 'max_delay'] as const).find((key) => !isUsual[key].includes(values[key]));
  if (other) return problems.error(place(other), `${other} and reserve are mutually exclusive: remove one of them`);
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
  const { ttl = '', on_overrun: written = overruns[0], estimate } = reserve.values;
  const ttlMs = durationMs(ttl);
  if (!isTtl(ttlMs)) return report('ttl', `ttl must be a time such as 60s or 5m, from 100ms to 1d, got '${ttl}'`);
  const onOverrun = overruns.find((one) => one === written);
  if (!onOverrun) return report('on_overrun', `on_overrun must be ${overruns.join(' or ')}, got '${written}'`);
  const most = nominalCapacity(inner) + inner.soft;
  const reserved = estimate === undefined || estimate === 'p95' ? estimate : Number(estimate);
  if (typeof reserved === 'number' && !(Number.isInteger(reserved) && reserved >= 1 && reserved <= most))
    return report(
      'estimate',
      `estimate must be p95, or 1 to the ${most} hits that fit into the limit, got '${estimate}'`,
    );
  const { requestsPerUnit, soft, windowMs } = inner;
  return {
    ...{ algorithm: 'reservation', counter: `${inner.counter}+reserve`, requestsPerUnit, soft, windowMs, inner },
    ...{ ttlMs, onOverrun, estimate: reserved, holder: 0, commits: false },
  } satisfies ReservationLimit;
}

/** The values of these keys that have no effect. */
const isUsual: Readonly<Record<'charge' | 'consistency' | 'max_delay', readonly (string | undefined)[]>> = {
  charge: [undefined, 'accepted'],
  consistency: [undefined, 'strict'],
  max_delay: [undefined],
};
