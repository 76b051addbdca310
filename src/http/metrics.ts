import type { Route } from './server.ts';

/** Renders metrics in Prometheus' exposition format. */
export type RenderMetrics = () => Promise<{ readonly contentType: string; readonly body: string }>;

/** The page that Prometheus scrapes, on the debug port or a port of its own. */
export const metricsRoute = (render: RenderMetrics): Route => ({
  help: 'metrics for Prometheus',
  answer: async () => ({ status: 200, ...(await render()) }),
});
