import {
  audit,
  changedCounters,
  counters,
  override,
  overrides,
  recording,
  session,
  setOverride,
  signedIn,
} from './counters.ts';
import { explanation, rateLimitRequest, refusals } from './explain.ts';
import { type AnswerSchema, fields, text } from './parts.ts';
import {
  candidate,
  candidateText,
  checkedRules,
  instances,
  ruleDifference,
  ruleFiles,
  rules,
  series,
  seriesOfRules,
} from './rules.ts';
import { advice, quotas, shares, sites, top, unmatched } from './views.ts';

/** The JSON of each operation's 200 response. */
export const answerSchemas: Readonly<Record<string, AnswerSchema>> = {
  'GET /api/v1/openapi.json': fields({
    ...{ openapi: text, info: { type: 'object' }, paths: { type: 'object' }, components: { type: 'object' } },
  }),
  'POST /api/v1/explain': explanation,
  'GET /api/v1/unmatched': unmatched,
  'GET /api/v1/top': top,
  'GET /api/v1/refusals': refusals,
  'GET /api/v1/counters': counters,
  'POST /api/v1/counters/reset': changedCounters,
  'POST /api/v1/counters/grant': changedCounters,
  'GET /api/v1/audit': audit,
  'GET /api/v1/overrides': overrides,
  'PUT /api/v1/overrides': setOverride,
  'DELETE /api/v1/overrides': override,
  'GET /api/v1/recording': recording,
  'PUT /api/v1/recording': recording,
  'GET /api/v1/quotas': quotas,
  'GET /api/v1/candidate': candidate,
  'POST /api/v1/candidate': candidate,
  'DELETE /api/v1/candidate': candidate,
  'GET /api/v1/candidate/text': candidateText,
  'GET /api/v1/candidate/diff': ruleDifference,
  'POST /api/v1/rules/check': checkedRules,
  'GET /api/v1/rules/text': ruleFiles,
  'GET /api/v1/advice': advice,
  'GET /api/v1/sites': sites,
  'GET /api/v1/sites/limits': shares,
  'GET /api/v1/session': session,
  'POST /api/v1/session': signedIn,
  'DELETE /api/v1/session': fields({}),
  'GET /api/v1/series': series,
  'GET /api/v1/series/rules': seriesOfRules,
  'GET /api/v1/rules': rules,
  'GET /api/v1/instances': instances,
};

/** Bodies that operations parse themselves. */
export const bodySchemas: Readonly<Record<string, AnswerSchema>> = { 'POST /api/v1/explain': rateLimitRequest };
