import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import type { Answer, Limited, Verdict } from '../../engine/decide/decide.ts';
import { shownRemaining, shownResetMs } from '../../engine/decide/shown.ts';
import { untoldFacts } from '../../engine/decide/would-refuse.ts';
import { answerSource } from '../../engine/ledger/debit.ts';
import { toStruct, type WireStruct, type WireValue } from '../../protobuf/struct.ts';

/** Header with which callers request the detail of each answer, by the value `1`. */
export const DETAIL_HEADER = 'x-weir-detail';

/** Maximum descriptors in the detail of an answer; further ones are left out. */
const MAX_DESCRIPTORS = 32;
/** Maximum characters of a rule's path; longer paths, which only limits in requests have, are cut. */
const MAX_PATH_LENGTH = 512;

type Fields = Record<string, WireValue>;

/**
 * Creates the detail for callers that are not proxies, for which the API has no fields. It has the rule, milliseconds,
 * and where hits were counted, for the descriptor that decided the answer and for each one in the request's order. It
 * is encoded directly, since building it as JSON would cost more than the decision.
 *
 * @example `{ "rule": "demo.user", "limit": 10, "remaining": 6, "reset_ms": 21500, "unspent_ms": 21500, "delay_ms": 0, "source": "backend",
 * "retry_after_ms": 0, "descriptors": [{ "rule": "demo.user", … }] }`
 */
export function createDetail(answer: Answer): WireStruct {
  const { verdicts, delayMs, retryAfterMs } = answer;
  const deciding = decidingVerdict(verdicts);
  const fields: Fields = deciding ? describe(deciding, answer) : {};
  if (retryAfterMs === NEVER_MS) delete fields.retry_after_ms;
  else if (retryAfterMs !== undefined) fields.retry_after_ms = { numberValue: retryAfterMs };
  const values: WireValue[] = [];
  for (let at = 0; at < verdicts.length && at < MAX_DESCRIPTORS; at++)
    values.push({ structValue: { fields: detailFields(verdicts[at], answer) } });
  fields.delay_ms = { numberValue: delayMs };
  fields.descriptors = { listValue: { values } };
  const untold = untoldFacts(answer);
  return { fields: untold ? { ...fields, ...toStruct(untold).fields } : fields };
}

function detailFields(verdict: Verdict | undefined, answer: Answer): Fields {
  if (verdict?.kind === 'limited') return describe(verdict, answer);
  if (verdict?.kind === 'unlimited') return { rule: { stringValue: shortenPath(verdict) } };
  return verdict ? { reason: { stringValue: verdict.kind } } : {};
}

/** Times of the limit alone, without those of an answer that is neither delayed nor refused. */
function describe(verdict: Limited, { delayMs, overallCode }: Answer): Fields {
  const { limit, decision, policy } = verdict;
  const fields: Fields = {
    rule: { stringValue: shortenPath(verdict) },
    limit: countValue(limit, limit.requestsPerUnit),
    remaining: countValue(limit, shownRemaining(verdict)),
    reset_ms: { numberValue: shownResetMs(verdict) },
    unspent_ms: { numberValue: decision.durationUntilResetMs },
    delay_ms: { numberValue: delayMs > 0 && !policy.shadow ? decision.delayMs : 0 },
    source: { stringValue: answerSource(decision) },
  };
  const waitMs = overallCode === 'OK' ? 0 : decision.retryAfterMs;
  if (waitMs !== NEVER_MS) fields.retry_after_ms = { numberValue: waitMs };
  return fields;
}

/** A number; of a budget the exact amount as text: `12.50 USD`. */
const countValue = (limit: Limited['limit'], count: number): WireValue =>
  limit.currency === undefined ? { numberValue: count } : { stringValue: showCount(limit, count) };

const shortenPath = ({ rule: { path } }: Extract<Verdict, { rule: unknown }>): string =>
  path.length > MAX_PATH_LENGTH ? path.slice(0, MAX_PATH_LENGTH) : path;

function decidingVerdict(verdicts: readonly Verdict[]): Limited | undefined {
  let found: Limited | undefined;
  for (const verdict of verdicts)
    if (verdict.kind === 'limited' && (!found || decidesBefore(verdict, found))) found = verdict;
  return found;
}

/**
 * Whether a verdict decides before another. Refusals come first, then limits that are not in shadow mode. Of two
 * refusals, one that is not a quota's comes first, then the longer wait; of two that passed, the one with fewer hits
 * left.
 */
function decidesBefore(one: Limited, other: Limited): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.policy.shadow !== other.policy.shadow) return !one.policy.shadow;
  if (one.code === 'OK') return one.decision.limitRemaining < other.decision.limitRemaining;
  if (one.policy.quota !== other.policy.quota) return !one.policy.quota;
  return one.decision.retryAfterMs > other.decision.retryAfterMs;
}
