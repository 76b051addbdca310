import type { Readiness } from '../rls/health.ts';
import { InvalidJson, requestFromJson, responseToJson } from '../rls/json.ts';
import type { Outcome, RlsService } from '../rls/service.ts';
import { codeNumbers } from '../rls/wire.ts';
import { json, type Page, plain, type Route, readBody } from './server.ts';

/** The longest body that `/json` reads: what gRPC takes as well. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** The routes for callers without gRPC, and for load balancers. */
export function apiRoutes(service: RlsService, readiness: () => Readiness): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    [
      '/json',
      {
        help: 'a RateLimitRequest as JSON; 200 within, 429 over the limit',
        answer: (request) => decideJson(request, service),
      },
    ],
    ['/healthcheck', { help: '200 while requests can be decided, else 500', answer: () => healthcheck(readiness()) }],
  ]);
}

async function decideJson(request: Parameters<Route['answer']>[0], service: RlsService): Promise<Page> {
  const body = await readBody(request, MAX_BODY_BYTES);
  if (body === undefined) return badRequest(`the body must have at most ${MAX_BODY_BYTES} bytes`);
  try {
    const wire = requestFromJson(body);
    return page(
      await new Promise<Outcome>((resolve) => void service.shouldRateLimit(wire, Number.POSITIVE_INFINITY, resolve)),
    );
  } catch (error) {
    if (error instanceof InvalidJson) return badRequest(error.message);
    throw error;
  }
}

/** Errors are 400, as envoyproxy/ratelimit answers them; its body has the first line alone. */
const badRequest = (reason: string): Page => plain(400, `Bad Request\n${reason}\n`);

function page(outcome: Outcome): Page {
  if ('error' in outcome) return badRequest(outcome.error.details);
  return json(outcome.response.overall_code === codeNumbers.OVER_LIMIT ? 429 : 200, responseToJson(outcome.response));
}

function healthcheck({ ready, reasons }: Readiness): Page {
  return ready ? plain(200, 'OK') : plain(500, reasons.map((reason) => `${reason}\n`).join(''));
}
