import fc from 'fast-check';
import { type FixedWindowLimit, unitMs } from '../../src/algorithms/limit.ts';

/** A fixed window of any length; a minute unless told. */
export const fixedWindowOf = (requestsPerUnit: number, windowMs: number = unitMs.MINUTE): FixedWindowLimit => ({
  algorithm: 'fixed_window',
  name: '',
  requestsPerUnit,
  unit: 'SECOND',
  unitMultiplier: windowMs / 1_000,
  windowMs,
});

/** Whole windows of the API and odd ones, from a second to a year. */
export const anyWindowMs: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(...Object.values(unitMs)),
  fc.integer({ min: unitMs.SECOND, max: unitMs.YEAR }),
);

/** From nothing to the most that a limit can say, small ones often. */
export const anyRequestsPerUnit: fc.Arbitrary<number> = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.integer({ min: 0, max: 4_294_967_295 }),
  fc.constant(4_294_967_295),
);
