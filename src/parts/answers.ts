import { adviceAnswers } from './advise/answers.ts';
import { candidateAnswers } from './candidate/answers.ts';
import { consoleAnswers } from './console/answers.ts';
import { offenderAnswers } from './guard/answers.ts';
import { holdPaths, holdShapes } from './holds/shapes.ts';
import { notificationAnswers } from './notify/answers.ts';
import { overrideAnswers } from './overrides/answers.ts';
import { quotaAnswers } from './quotas/answers.ts';
import { recordAnswers } from './record/answers.ts';
import { refusalAnswers } from './refusals/answers.ts';
import { siteAnswers } from './sites/answers.ts';
import { topAnswers } from './top/answers.ts';
import { unmatchedAnswers } from './unmatched/answers.ts';
import { usageAnswers } from './usage/answers.ts';

/** The JSON of the operations of optional capabilities. */
export const partAnswers = {
  ...adviceAnswers,
  ...candidateAnswers,
  ...consoleAnswers,
  ...offenderAnswers,
  ...notificationAnswers,
  ...overrideAnswers,
  ...quotaAnswers,
  ...recordAnswers,
  ...refusalAnswers,
  ...siteAnswers,
  ...topAnswers,
  ...unmatchedAnswers,
  ...usageAnswers,
};

/** Operations for callers without gRPC. */
export const partPaths = {
  ...holdPaths,
};

/** Their shapes by the names of their types in generated clients. */
export const partShapes = {
  ...holdShapes,
};
