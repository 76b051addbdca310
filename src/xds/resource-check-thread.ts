import { serveRulesThread } from '../rules/rules-thread.ts';
import { type AnswerCheck, checkResources } from './resources.ts';

/** Entry of the thread in which `openDiscoveredRules` checks a control plane's answers. */
serveRulesThread<AnswerCheck>(
  (options) =>
    ({ answer, overlay }) =>
      checkResources(answer, { ...options, overlay }),
);
