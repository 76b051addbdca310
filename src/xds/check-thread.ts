import type { LoadOptions } from '../rules/load.ts';
import { serveThread } from '../rules/thread.ts';
import { checkResources, type ResourceAnswer } from './resources.ts';

/** Entry of the thread in which `openDiscoveredRules` checks a control plane's answers. */
serveThread((options: LoadOptions) => (answer: ResourceAnswer) => checkResources(answer, options));
