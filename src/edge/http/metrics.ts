import { isListed } from './compressed.ts';
import type { Page, Route } from './server.ts';

/** Renders metrics in Prometheus' text format or in OpenMetrics. */
export type RenderMetrics = (format?: 'text' | 'openmetrics') => RenderedMetrics | Promise<RenderedMetrics>;
type RenderedMetrics = Pick<Page, 'contentType' | 'body'>;

/** The page that Prometheus scrapes on the debug port or one of its own, in OpenMetrics for clients that accept it. */
export function metricsRoute(render: RenderMetrics): Route {
  return {
    help: 'metrics for Prometheus, or in OpenMetrics for clients that accept it',
    answer: async ({ headers: { accept = '' } }) => ({
      status: 200,
      headers: { vary: 'accept' },
      ...(await render(isListed(accept, ['application/openmetrics-text']) ? 'openmetrics' : 'text')),
    }),
  };
}
