import { monotonicMs } from '../../base/clock.ts';
import { RequestWork } from '../../base/request-work.ts';
import type { PendingCall } from '../../h2/bounds/call-queue.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import { OCTETS_PER_UNIT } from '../../h2/grpc/unary-call.ts';
import { peerAddress } from '../../h2/listen/listener.ts';
import type { SideService } from '../grpc/side-service.ts';
import type { Overload } from '../overload/overload.ts';
import { requestCost } from '../rls/cost.ts';
import { DETAIL_HEADER } from '../rls/detail.ts';
import type { Readiness } from '../rls/health.ts';
import type { Caller, CallOutcome, RlsService } from '../rls/service.ts';
import { requestFromJson, responseToJson } from '../wire/json.ts';
import { InvalidJson } from '../wire/json-reader.ts';
import { codeNumbers, type WireRequest } from '../wire/wire.ts';
import { crossSiteReason } from './cross-site.ts';
import { CallerDisconnected, type HttpRequest } from './request.ts';
import { isVerbose, json, type Page, plain, type Route } from './server.ts';

/** Size limit for bodies of `/json`: fits the largest valid request unless its strings are unusually long. */
const MAX_BODY_BYTES = 1024 * 1024;

/** A reason may quote the request, so it is cut to this length. */
const MAX_REASON_LENGTH = 500;

export type JsonOverload = Pick<Overload, 'queue' | 'refusal'>;

/** A service whose methods may have pages, for callers without gRPC. */
export interface OfferedService extends SideService {
  readonly pages?: (overload: JsonOverload) => Promise<ReadonlyMap<string, Route>>;
}

/** The routes for callers without gRPC, and for load balancers. */
export function apiRoutes(
  service: RlsService,
  readiness: () => Readiness,
  overload: JsonOverload,
): ReadonlyMap<string, Route> {
  return new Map<string, Route>([
    [
      '/json',
      {
        help: 'a RateLimitRequest as JSON; 200 within, 429 over the limit',
        answer: (request) =>
          answerJson(
            request,
            overload,
            (body, reply) => decideWire(requestFromJson(body), { octets: body.length, request, service, reply }),
            outcomePage,
          ),
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

/**
 * Answers a request whose body is JSON.
 *
 * @param run  throws InvalidJson; returns units of work
 */
export function answerJson<T>(
  request: HttpRequest,
  overload: JsonOverload,
  run: (body: Buffer, reply: (outcome: T) => void) => number,
  toPage: (outcome: T) => Page,
): Page | Promise<Page> {
  const reason = crossSiteReason(request);
  if (reason !== undefined) return refused(403, 'Forbidden\n', reason, status.PERMISSION_DENIED);
  const error = overload.refusal();
  if (error) return outcomePage({ error });
  return request.readBody(MAX_BODY_BYTES).then((body) => {
    if (!body) return badRequest(`the body must have at most ${MAX_BODY_BYTES} bytes`);
    return outcomeInTurn(body.length, overload, (reply: (outcome: T) => void) => run(body, reply)).then(
      toPage,
      failurePage,
    );
  });
}

/**
 * Handles a request in a turn of the call queue. Nothing refers to it afterwards.
 *
 * @param octets  its size
 * @param run     returns units of work
 */
export function outcomeInTurn<T>(
  octets: number,
  { queue }: JsonOverload,
  run: (reply: (outcome: T) => void) => number,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const estimate = octets / OCTETS_PER_UNIT;
    const call: PendingCall = {
      connection: {}, // it has one request at a time
      dueAtMs: monotonicMs(),
      expiresAtMs: Number.POSITIVE_INFINITY, // the caller has no deadline
      run() {
        try {
          return run(resolve);
        } catch (error) {
          reject(error);
          return estimate;
        }
      },
    };
    if (queue.mayRun(estimate)) queue.spend(call.run(call.dueAtMs));
    else queue.add(call, estimate);
  });
}

interface DecideOptions {
  /** Size of the request. */
  readonly octets: number;
  readonly request: HttpRequest;
  readonly service: RlsService;
  readonly reply: (outcome: CallOutcome) => void;
}

/**
 * Charges the memory of a request, and passes it to the service. Its caller must not keep the decoded request, which
 * would stay in memory while the service holds the call.
 *
 * @returns units of work
 */
export function decideWire(wire: WireRequest, { octets, request, service, reply }: DecideOptions): number {
  const { bytes, units } = requestCost(wire, octets);
  request.charge(bytes);
  if (request.socket.destroyed) throw new CallerDisconnected('the connection was reset'); // by the charge above
  const caller = identifyCaller(request);
  void service.shouldRateLimit(wire, caller, reply);
  return units + caller.work.units;
}

/** The caller of an HTTP request, which has no deadline. */
export function identifyCaller(request: HttpRequest): Caller {
  return {
    timeoutMs: Number.POSITIVE_INFINITY,
    header: (name) => request.headers[name]?.toString(),
    needsDetail: request.headers[DETAIL_HEADER] === '1',
    work: new RequestWork(),
    onGone: (listener) => request.onGone(listener),
    connection: { address: peerAddress(request.socket) },
  };
}

/** Errors are 400 with this body, as in envoyproxy/ratelimit; headers have the reason and, as in Envoy, the status. */
export const badRequest = (reason: string, code: status = status.INVALID_ARGUMENT): Page =>
  refused(400, 'Bad Request\n', reason, code);

export function refused(httpStatus: number, body: string, reason: string, code: status): Page {
  const visible = reason.slice(0, MAX_REASON_LENGTH).replace(/[^\x20-\x7e]/g, '?');
  return { ...plain(httpStatus, body), headers: { 'grpc-status': String(code), 'x-weir-reason': visible } };
}

function outcomePage(outcome: CallOutcome): Page {
  if ('error' in outcome) return badRequest(outcome.error.details, outcome.error.code);
  return json(outcome.response.overall_code === codeNumbers.OVER_LIMIT ? 429 : 200, responseToJson(outcome.response));
}

function failurePage(cause: unknown): Page {
  if (cause instanceof InvalidJson) return badRequest(cause.message);
  throw cause;
}

function healthcheck({ ready, reasons, notes = [] }: Readiness, request: HttpRequest): Page {
  const details = isVerbose(request) ? [...reasons, ...notes].map((line) => `${line}\n`).join('') : '';
  return ready ? plain(200, details === '' ? 'OK' : `OK\n${details}`) : plain(500, details);
}
