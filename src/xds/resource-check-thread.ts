import type { LoadOptions } from '../rules/load.ts';
import { serveThread } from '../rules/thread.ts';
import { type AnswerCheck, checkResources } from './resources.ts';

/** Checks a control plane's answers in a thread of its own: the entry that `openDiscoveredRules` runs. */
serveThread(
  (options: LoadOptions) =>
    ({ answer, overlay }: AnswerCheck) =>
      checkResources(answer, { ...options, overlay }),
);
