import type { OpenOperatorPart } from '../serve/control/part.ts';
import { adviceOperations } from './advise/operations.ts';
import { candidateOperations } from './candidate/operations.ts';
import { offenderOperations } from './guard/operations.ts';
import { notifyOperations } from './notify/operations.ts';
import type { Parts } from './parts.ts';
import { quotaOperations } from './quotas/operations.ts';
import { recordOperations } from './record/operations.ts';
import { siteOperations } from './sites/operations.ts';
import { openUsageOperations } from './usage/operations.ts';

/** Functions that open what operators use, in the process that serves them. */
export const operatorParts: Parts<OpenOperatorPart> = {
  record: recordOperations,
  quotas: quotaOperations,
  sites: siteOperations,
  candidate: candidateOperations,
  advise: adviceOperations,
  guard: offenderOperations,
  usage: openUsageOperations,
  notify: notifyOperations,
};
