import type { ValueOf } from '../../base/shape.ts';
import { partAnswers } from '../../parts/answers.ts';
import { counterAnswers } from './counters.ts';
import { explainAnswers } from './explain.ts';
import { findingAnswers } from './findings.ts';
import { ruleAnswers } from './rules.ts';
import { serviceAnswers } from './service.ts';
import { statusAnswers } from './status.ts';

/** The JSON of each operation's 200 response. */
export const answers = {
  ...serviceAnswers,
  ...statusAnswers,
  ...explainAnswers,
  ...findingAnswers,
  ...counterAnswers,
  ...ruleAnswers,
  ...partAnswers,
};

/** The answer of each operation, such as `GET /api/v1/top`. */
export type Answers = { readonly [O in keyof typeof answers]: ValueOf<(typeof answers)[O]> };
