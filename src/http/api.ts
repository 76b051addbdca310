import type { IncomingMessage } from 'node:http';
import type { Readiness } from '../rls/health.ts';
import { InvalidJson, requestFromJson, responseToJson } from '../rls/json.ts';
import type { Caller, Outcome, RlsService } from '../rls/service.ts';
import type { Shedding } from '../rls/shedding.ts';
import { codeNumbers } from '../rls/wire.ts';
import { isVerbose, json, type Page, plain, type Route, readBody } from './server.ts';

/** The longest body that `/json` reads: what gRPC takes as well. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** A reason may quote the request: so many characters of it are told. */
const MAX_REASON_LENGTH = 500;

/**
 * The routes for callers without gRPC, and for load balancers.
 *
 * @param shedding  undefined: every call is taken
 */
export function apiRoutes(
  service: RlsService,
  readiness: () => Readiness,
  shedding?: Pick<Shedding, 'refusal'>,
): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    [
      '/json',
      {
        help: 'a RateLimitRequest as JSON; 200 within, 429 over the limit',
        answer: (request) => decideJson(request, service, shedding),
      },
    ],
    [
      '/healthcheck',
      {
        help: '200 while requests can be decided, else 500; ?verbose says why',
        answer: (request) => healthcheck(readiness(), request),
      },
    ],
  ]);
}

async function decideJson(
  request: IncomingMessage,
  service: RlsService,
  shedding: Pick<Shedding, 'refusal'> | undefined,
): Promise<Page> {
  const error = shedding?.refusal();
  if (error) return page({ error });
  const body = await readBody(request, MAX_BODY_BYTES);
  if (body === undefined) return badRequest(`the body must have at most ${MAX_BODY_BYTES} bytes`);
  try {
    const wire = requestFromJson(body);
    return page(
      await new Promise<Outcome>((resolve) => void service.shouldRateLimit(wire, callerOf(request), resolve)),
    );
  } catch (error) {
    if (error instanceof InvalidJson) return badRequest(error.message);
    throw error;
  }
}

/** Who sent a request over HTTP, which tells of no deadline. */
export const callerOf = ({ headers }: IncomingMessage): Caller => ({
  timeoutMs: Number.POSITIVE_INFINITY,
  header: (name) => headers[name]?.toString(),
});

/** Errors are 400 with this body, as envoyproxy/ratelimit answers them; a header says why. */
function badRequest(reason: string): Page {
  const visible = reason.slice(0, MAX_REASON_LENGTH).replace(/[^\x20-\x7e]/g, '?');
  return { ...plain(400, 'Bad Request\n'), headers: { 'x-weir-reason': visible } };
}

function page(outcome: Outcome): Page {
  if ('error' in outcome) return badRequest(outcome.error.details);
  return json(outcome.response.overall_code === codeNumbers.OVER_LIMIT ? 429 : 200, responseToJson(outcome.response));
}

function healthcheck({ ready, reasons, notes = [] }: Readiness, request: IncomingMessage): Page {
  const told = isVerbose(request) ? [...reasons, ...notes].map((line) => `${line}\n`).join('') : '';
  return ready ? plain(200, told === '' ? 'OK' : `OK\n${told}`) : plain(500, told);
}
