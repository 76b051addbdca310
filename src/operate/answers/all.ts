import type { ValueOf } from '../../base/shape.ts';
import { partAnswers } from '../../parts/answers.ts';
import { serviceAnswers } from './service.ts';

/** The JSON of each operation's 200 response. */
export const answers = {
  ...serviceAnswers,
  ...partAnswers,
};

/** The answer of each operation, such as `GET /api/v1/top`. */
export type Answers = { readonly [O in keyof typeof answers]: ValueOf<(typeof answers)[O]> };
