import type { Overload } from '../overload/overload.ts';
import { costOf } from '../rls/cost.ts';
import { DETAIL_HEADER } from '../rls/detail.ts';
import type { Readiness } from '../rls/health.ts';
import { requestFromJson, responseToJson } from '../rls/json.ts';
import { InvalidJson } from '../rls/json-reader.ts';
import type { Caller, CallOutcome, RlsService } from '../rls/service.ts';
import { codeNumbers } from '../rls/wire.ts';
import { crossSiteReason } from './cross-site.ts';
import { CallerDisconnected, type HttpRequest } from './request.ts';
import { isVerbose, json, type Page, plain, type Route } from './server.ts';

/** Size limit for bodies of `/json`: fits the largest valid request unless its strings are unusually long. */
const MAX_BODY_BYTES = 1024 * 1024;

/** A reason may quote the request, so it is cut to this length. */
const MAX_REASON_LENGTH = 500;

/**
 * The routes for callers without gRPC, and for load balancers.
 *
 * @param overload  undefined: admit every call
 */
export function apiRoutes(
  service: RlsService,
  readiness: () => Readiness,
  overload?: Pick<Overload, 'refusal'>,
): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    [
      '/json',
      {
        help: 'a RateLimitRequest as JSON; 200 within, 429 over the limit',
        answer: (request) => decideJson(request, service, overload),
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

function decideJson(
  request: HttpRequest,
  service: RlsService,
  overload: Pick<Overload, 'refusal'> | undefined,
): Page | Promise<Page> {
  const reason = crossSiteReason(request);
  if (reason !== undefined) return refused(403, 'Forbidden\n', reason);
  const error = overload?.refusal();
  if (error) return pageOf({ error });
  return request.readBody(MAX_BODY_BYTES).then((body) => {
    if (!body) return badRequest(`the body must have at most ${MAX_BODY_BYTES} bytes`);
    try {
      return decide(body, request, service).then(pageOf);
    } catch (error) {
      if (error instanceof InvalidJson) return badRequest(error.message);
      throw error;
    }
  });
}

/** A separate function, so that nothing refers to the decoded request while the service holds the call. */
function decide(body: Buffer, request: HttpRequest, service: RlsService): Promise<CallOutcome> {
  const wire = requestFromJson(body);
  request.charge(costOf(wire, body.length).bytes);
  if (request.socket.destroyed) throw new CallerDisconnected('the connection was reset'); // by the charge above
  return new Promise((resolve) => void service.shouldRateLimit(wire, callerOf(request), resolve));
}

/** The caller of an HTTP request, which has no deadline. */
export function callerOf(request: HttpRequest): Caller {
  return {
    timeoutMs: Number.POSITIVE_INFINITY,
    header: (name) => request.headers[name]?.toString(),
    needsDetail: request.headers[DETAIL_HEADER] === '1',
    onGone: (listener) => request.onGone(listener),
  };
}

/** Errors are 400 with this body, as in envoyproxy/ratelimit; a header has the reason. */
const badRequest = (reason: string): Page => refused(400, 'Bad Request\n', reason);

function refused(status: number, body: string, reason: string): Page {
  const visible = reason.slice(0, MAX_REASON_LENGTH).replace(/[^\x20-\x7e]/g, '?');
  return { ...plain(status, body), headers: { 'x-weir-reason': visible } };
}

function pageOf(outcome: CallOutcome): Page {
  if ('error' in outcome) return badRequest(outcome.error.details);
  return json(outcome.response.overall_code === codeNumbers.OVER_LIMIT ? 429 : 200, responseToJson(outcome.response));
}

function healthcheck({ ready, reasons, notes = [] }: Readiness, request: HttpRequest): Page {
  const details = isVerbose(request) ? [...reasons, ...notes].map((line) => `${line}\n`).join('') : '';
  return ready ? plain(200, details === '' ? 'OK' : `OK\n${details}`) : plain(500, details);
}
