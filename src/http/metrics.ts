import type { HttpRequest } from './request.ts';
import type { Route } from './server.ts';
import { shareRendering } from './share-rendering.ts';

/** A page of numbers, in Prometheus' text format or in OpenMetrics. */
export type Exposed = (
  format?: 'text' | 'openmetrics',
) => Promise<{ readonly contentType: string; readonly body: string }>;

/** What Prometheus scrapes: alone on a port of its own, or one of the debug pages. In OpenMetrics for who accepts that. */
export function metricsRoute(exposed: Exposed): Route {
  const text = shareRendering(() => exposed());
  const openMetrics = shareRendering(() => exposed('openmetrics'));
  return {
    help: 'numbers for Prometheus, or in OpenMetrics where that is accepted',
    answer: async (request) => ({
      status: 200,
      headers: { vary: 'accept' },
      ...(await (acceptsOpenMetrics(request) ? openMetrics : text)()),
    }),
  };
}

/** Prometheus asks for OpenMetrics first, and says how much it prefers it. @see https://www.rfc-editor.org/rfc/rfc9110#name-accept */
function acceptsOpenMetrics({ headers: { accept = '' } }: HttpRequest): boolean {
  return accept.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return type === 'application/openmetrics-text' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}
