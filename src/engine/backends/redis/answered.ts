import { StoreUnavailable } from '../backend.ts';
import { within } from '../within.ts';
import { reasonOf } from './reason.ts';

/** The timeout of calls for which no decision waits. */
const TIMEOUT_MS = 1_000;

/**
 * The reply to an operator's command.
 *
 * @throws StoreUnavailable  no reply in time: a command that was sent may still be executed later
 */
export async function answered<T>(reply: Promise<T>): Promise<T> {
  const outcome = await within(TIMEOUT_MS, reply);
  if ('value' in outcome) return outcome.value;
  throw new StoreUnavailable(`redis: ${reasonOf(outcome.reason)}`);
}
