import type { LoadOptions } from '../rules/load.ts';
import { serveThread } from '../rules/thread.ts';
import { type AnswerCheck, checkResources } from './resources.ts';

/** Entry of the thread in which `openDiscoveredRules` checks a control plane's answers. */
serveThread(
  (options: LoadOptions) =>
    ({ answer, overlay }: AnswerCheck) =>
      checkResources(answer, { ...options, overlay }),
);
