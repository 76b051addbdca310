import { adviceAnswers } from './advise/answers.ts';
import { auditAnswers } from './audit/answers.ts';
import { candidateAnswers } from './candidate/answers.ts';
import { consoleAnswers } from './console/answers.ts';
import { counterAnswers } from './counters/answers.ts';
import { explainAnswers } from './explain/answers.ts';
import { findingAnswers } from './findings/answers.ts';
import { offenderAnswers } from './guard/answers.ts';
import { holdPaths, holdShapes } from './holds/shapes.ts';
import { notificationAnswers } from './notify/answers.ts';
import { overrideAnswers } from './overrides/answers.ts';
import { quotaAnswers } from './quotas/answers.ts';
import { recordAnswers } from './record/answers.ts';
import { refusalAnswers } from './refusals/answers.ts';
import { siteAnswers } from './sites/answers.ts';
import { statusAnswers } from './status/answers.ts';
import { topAnswers } from './top/answers.ts';
import { unmatchedAnswers } from './unmatched/answers.ts';
import { usageAnswers } from './usage/answers.ts';

/** The JSON of the operations of optional capabilities. */
export const partAnswers = {
  ...adviceAnswers,
  ...auditAnswers,
  ...candidateAnswers,
  ...consoleAnswers,
  ...counterAnswers,
  ...explainAnswers,
  ...findingAnswers,
  ...offenderAnswers,
  ...notificationAnswers,
  ...overrideAnswers,
  ...quotaAnswers,
  ...recordAnswers,
  ...refusalAnswers,
  ...siteAnswers,
  ...statusAnswers,
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
