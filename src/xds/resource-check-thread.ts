import type { LoadOptions } from '../rules/load.ts';
import { serveThread } from '../rules/thread.ts';
import { checkResources, type ResourceAnswer } from './resources.ts';

/** Checks a control plane's answers in a thread of its own: the entry that `openDiscoveredRules` runs. */
serveThread((options: LoadOptions) => (answer: ResourceAnswer) => checkResources(answer, options));
