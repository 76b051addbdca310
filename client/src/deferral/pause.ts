import type { Decision } from '../decision.ts';
import { checkNumber } from '../options.ts';

/** Until the next attempt, after the service has not answered. */
const UNANSWERED_MS = 1_000;

/** Until the next attempt, if nothing passes before an operator intervenes, as with a block. */
const BLOCKED_MS = 60_000;

/** Maximum time for which a line is closed at once, so that a reset or raised limit is noticed. */
export const MAX_PAUSE_MS = 60_000;

/** Maximum jitter, as a share of the wait. */
const JITTER_PART = 0.1;
const DEFAULT_MAX_JITTER_MS = 1_000;
const MAX_MS = 86_400_000;

/** The pause of a line whose head was not admitted. */
type Pause =
  | { readonly kind: 'refused' | 'unanswered'; readonly ms: number }
  /** The head needs more hits than its limit ever admits. */
  | { readonly kind: 'never' };

/** @param decision  with `ok: false` */
export function pauseAfter(decision: Decision): Pause {
  const { error, retryAfterMs, resetMs, source, limit } = decision;
  if (error) return { kind: 'unanswered', ms: UNANSWERED_MS };
  if (retryAfterMs !== undefined) return { kind: 'refused', ms: retryAfterMs };
  // Weir states its source, and omits the time if waiting does not help. A limit of 0 is a block.
  if (source !== undefined && source !== 'client_refusal' && limit) return { kind: 'never' };
  return { kind: 'refused', ms: resetMs || BLOCKED_MS };
}

/**
 * Adds a random time to the wait of a key, so that keys that are refused together do not return together. The time is
 * drawn for each refusal, so that no key is always last.
 *
 * @param maxMs  default: 1,000; never more than a tenth of the wait
 * @param random  from 0 to 1
 */
export function createJitter(maxMs = DEFAULT_MAX_JITTER_MS, random = Math.random): (waitMs: number) => number {
  checkNumber('jitterMs', maxMs, [0, MAX_MS]);
  return (waitMs) => Math.ceil(waitMs + Math.min(waitMs * JITTER_PART, maxMs) * random());
}
