import type { OpenOperatorPart } from '../serve/control/part.ts';
import { adviceOperations } from './advise/operations.ts';
import { auditOperations } from './audit/operations.ts';
import { candidateOperations } from './candidate/operations.ts';
import { openConsole } from './console/open.ts';
import { counterOperations } from './counters/operations.ts';
import { explainOperations } from './explain/operations.ts';
import { findingOperations } from './findings/operations.ts';
import { offenderOperations } from './guard/operations.ts';
import { openHistory } from './history/open.ts';
import { notifyOperations } from './notify/operations.ts';
import { openOverrides } from './overrides/open.ts';
import type { Parts } from './parts.ts';
import { profilePages } from './profile/pages.ts';
import { quotaOperations } from './quotas/operations.ts';
import { recordOperations } from './record/operations.ts';
import { refusalOperations } from './refusals/operations.ts';
import { openSink } from './sinks/open.ts';
import { siteOperations } from './sites/operations.ts';
import { openStatus } from './status/open.ts';
import { topOperations } from './top/operations.ts';
import { unmatchedOperations } from './unmatched/operations.ts';
import { openUsageOperations } from './usage/operations.ts';

/** Functions that open what operators use, in the process that serves them. */
export const operatorParts: Parts<OpenOperatorPart> = {
  status: openStatus,
  unmatched: unmatchedOperations,
  top: topOperations,
  audit: auditOperations,
  explain: explainOperations,
  counters: counterOperations,
  record: recordOperations,
  quotas: quotaOperations,
  sites: siteOperations,
  candidate: candidateOperations,
  advise: adviceOperations,
  guard: offenderOperations,
  usage: openUsageOperations,
  notify: notifyOperations,
  overrides: openOverrides,
  findings: findingOperations,
  refusals: refusalOperations,
  history: openHistory,
  console: openConsole,
  profile: profilePages,
  sinks: openSink,
};
