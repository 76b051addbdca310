import { counterAnswers } from './counters.ts';
import { explainAnswers, rateLimitRequest } from './explain.ts';
import { type AnswerSchemas, fields, text } from './parts.ts';
import { ruleAnswers } from './rules.ts';
import { viewAnswers } from './views.ts';

/** The JSON of each operation's 200 response. */
export const answerSchemas: AnswerSchemas = {
  'GET /api/v1/openapi.json': fields({
    ...{ openapi: text, info: { type: 'object' }, paths: { type: 'object' }, components: { type: 'object' } },
  }),
  ...explainAnswers,
  ...viewAnswers,
  ...counterAnswers,
  ...ruleAnswers,
};

/** Bodies that operations parse themselves. */
export const bodySchemas: AnswerSchemas = { 'POST /api/v1/explain': rateLimitRequest };
