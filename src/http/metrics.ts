import type { Route } from './server.ts';

/** Numbers in Prometheus' exposition format. */
export type Exposed = () => Promise<{ readonly contentType: string; readonly body: string }>;

/** What Prometheus scrapes: alone on a port of its own, or one of the debug pages. */
export const metricsRoute = (exposed: Exposed): Route => ({
  help: 'numbers for Prometheus',
  answer: async () => ({ status: 200, ...(await exposed()) }),
});
