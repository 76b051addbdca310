import { LEASE_MS, SHARE_OF_REST } from '../../../src/parts/leases/leases.ts';

/**
 * Calls per request if the requests of a group, which arrive at random times, share a call: (1 − e^−x) / x for x
 * requests per group. Nearly 1 for few requests, 1 / x for many.
 *
 * @param perSecond  requests per second
 * @param groupMs    how long a group lasts: until a batch is sent, or a refusal is forgotten
 */
export function groupedCalls(perSecond: number, groupMs: number): number {
  const requests = (perSecond * groupMs) / 1_000;
  return requests < 1e-9 ? 1 : -Math.expm1(-requests) / requests;
}

/**
 * Calls to Redis per decision with `consistency: leased`: each counts its own hit and leases a block of further ones.
 *
 * @param perSecond  hits of one key at one instance
 * @param rest       approximate number of hits that the counter has left
 */
export function leasedCalls(perSecond: number, rest = Number.POSITIVE_INFINITY): number {
  const block = Math.floor(Math.min((perSecond * LEASE_MS) / 1_000, rest * SHARE_OF_REST));
  return 1 / (1 + block);
}
