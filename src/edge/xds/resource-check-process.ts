import { serveRulesProcess } from '../../engine/rules/reload/rules-process.ts';
import { type AnswerCheck, checkResources } from './resources.ts';

/** Entry of the process in which `openDiscoveredRules` checks a control plane's answers. */
serveRulesProcess<AnswerCheck>(
  process,
  (options) =>
    ({ answer, overlay }) =>
      checkResources(answer, { ...options, overlay }),
);
