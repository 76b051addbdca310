import { fields, flag, listOf, text, whole } from '../../base/shape.ts';
import { listedOverride, setOverride } from '../../edge/http/shapes.ts';

export const overrideAnswers = {
  'GET /api/v1/overrides': fields({ overrides: listOf(listedOverride) }),
  'GET /api/v1/overrides/preview': fields({ counters: whole, isAtLeast: flag, examples: listOf(text) }),
  'PUT /api/v1/overrides': setOverride,
  'DELETE /api/v1/overrides': listedOverride,
};
