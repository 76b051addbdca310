import { NEVER_MS } from '../algorithms/limit.ts';
import { fillTemplate, isJsonType, type TemplateValues } from '../rules/match/template.ts';
import type { RuleResponse } from '../rules/match/tree.ts';
import { type Answer, type Limited, limitedBy } from './decide.ts';
import { describeApplied } from './overrides.ts';
import { toWholeSeconds } from './shown.ts';

/** The response that a rule has for requests that it refuses. */
export interface Refusal {
  readonly contentType: string;
  readonly body: string;
  /** Further headers. */
  readonly headers: RuleResponse['headers'];
}

type Responding = Limited & { readonly rule: { readonly response: RuleResponse } };

const responds = (verdict: Limited): verdict is Responding =>
  verdict.code === 'OVER_LIMIT' && verdict.rule.response !== undefined;

/**
 * The response to a refused request: that of the first descriptor whose rule refuses it and has one. Undefined if there
 * is none, or the request passed.
 *
 * @param maxWaitMs  the most that the response tells clients to wait
 */
export function createRefusal(
  { overallCode, verdicts, retryAfterMs = NEVER_MS }: Pick<Answer, 'overallCode' | 'verdicts' | 'retryAfterMs'>,
  maxWaitMs: number = Number.POSITIVE_INFINITY,
): Refusal | undefined {
  const refusing = overallCode === 'OVER_LIMIT' ? verdicts.flatMap(limitedBy).find(responds) : undefined;
  if (!refusing) return undefined;
  const { rule, label } = refusing;
  const { body, contentType, headers } = rule.response;
  const seconds = retryAfterMs === NEVER_MS ? undefined : toWholeSeconds(Math.min(retryAfterMs, maxWaitMs));
  const limit = describeApplied(refusing);
  if (body === undefined)
    return { contentType, body: problemDocument({ seconds, limit, rule: rule.path, name: label.name }), headers };
  const isJson = isJsonType(contentType);
  const never = isJson ? 'null' : 'never';
  const values: TemplateValues = { retry_after: String(seconds ?? never), limit, rule: rule.path };
  return { contentType, body: fillTemplate(body, values, isJson), headers };
}

interface Refused {
  /** Undefined: the request can never pass. */
  readonly seconds: number | undefined;
  readonly limit: string;
  readonly rule: string;
  readonly name: string;
}

/**
 * @see https://www.rfc-editor.org/rfc/rfc9457
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/  the type
 */
const problemDocument = ({ seconds, limit, rule, name }: Refused): string =>
  JSON.stringify({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
    status: 429,
    'violated-policies': [name || rule],
    rule,
    limit,
    ...(seconds !== undefined && { retry_after: seconds }),
  });
