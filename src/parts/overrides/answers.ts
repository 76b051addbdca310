import { fields, listOf } from '../../base/shape.ts';
import { listedOverride, setOverride } from '../../edge/http/shapes.ts';

export const overrideAnswers = {
  'GET /api/v1/overrides': fields({ overrides: listOf(listedOverride) }),
  'PUT /api/v1/overrides': setOverride,
  'DELETE /api/v1/overrides': listedOverride,
};
