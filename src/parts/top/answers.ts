import { fields, listOf, oneOf, whole } from '../../base/shape.ts';
import { shownTop, topKinds } from '../lab/sketches/shapes.ts';

export const topAnswers = {
  'GET /api/v1/top': fields({ by: oneOf(...topKinds), windowSeconds: whole, rules: listOf(shownTop) }),
};
