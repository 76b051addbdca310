import { monotonicMs } from '../../base/clock.ts';
import type { Cost } from '../../h2/bounds/call-queue.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import { maximumRequest, type WireRequest, type WireResponse } from '../wire/wire.ts';
import { requestCost } from './cost.ts';
import { type EncodedMessage, readRateLimitRequest, responseWriter, writeResponse } from './messages.ts';
import type { Caller, CallOutcome, GrpcStatus, Outcome, RlsService } from './service.ts';

/** Decides several requests of one caller independently. Never throws. */
type DecideBatch = (
  batch: WireBatchRequest,
  caller: Caller,
  reply: (outcome: Outcome<WireBatchResponse>) => void,
) => void;

/**
 * `weir.v1.Batch`, independent of the transport. All requests are decided in one turn of the event loop, so that the
 * store is called for all of them together.
 */
export function createBatch(service: RlsService): DecideBatch {
  return ({ requests, problem }, caller, reply) => {
    if (problem) return reply({ error: problem });
    const answers: WireBatchAnswer[] = new Array(requests.length);
    if (requests.length === 0) return reply({ response: { answers } });
    let missing = requests.length;
    const each = shared(caller);
    for (const [at, request] of requests.entries())
      service.shouldRateLimit(request, each, (outcome) => {
        answers[at] = toBatchAnswer(outcome);
        if (--missing === 0) reply({ response: { answers } });
      });
  };
}

/** The caller of every request in a batch, which fans out its one listener, as a transport remembers one per call. */
function shared(caller: Caller): Caller {
  const listeners: (() => void)[] = [];
  let isGone = false;
  caller.onGone?.(() => {
    isGone = true;
    for (const listener of listeners) listener();
  });
  return {
    timeoutMs: caller.timeoutMs,
    startedMs: caller.startedMs ?? monotonicMs(),
    work: caller.work,
    header: (name) => caller.header(name),
    needsDetail: caller.needsDetail === true,
    ...(caller.connection && { connection: caller.connection }),
    onGone(listener) {
      if (isGone) listener();
      else listeners.push(listener);
    },
  };
}

const toBatchAnswer = (outcome: CallOutcome): WireBatchAnswer =>
  'error' in outcome ? { status: { code: outcome.error.code, message: outcome.error.details } } : outcome;

/** The messages of `proto/weir/v1/batch.proto`, decoded. */
export interface WireBatchRequest {
  readonly requests: readonly WireRequest[];
  /** The limit of `maximumBatch` that the batch exceeded, so that it was not read to its end. */
  readonly problem?: GrpcStatus;
}
export interface WireBatchResponse {
  readonly answers: readonly WireBatchAnswer[];
}
type WireBatchAnswer =
  | { readonly response: WireResponse }
  | { readonly status: { readonly code: number; readonly message: string } };

/**
 * Limits of a batch; one that exceeds them is refused. With this many octets, all its requests together have no more
 * fields than a single one may have (`ProtoReader`); with this many descriptors, they are at most the work of two.
 */
const maximumBatch = {
  requests: 256,
  descriptors: 2 * maximumRequest.descriptors,
  octets: 256 * 1_024,
} as const;

const reader = new ProtoReader((bytes, from, to) => bytes.toString('latin1', from, to)); // reads no text

/**
 * Decodes the BatchRequest in `bytes` from `from` to `to`, up to the first limit of `maximumBatch` that it exceeds. A
 * request that cannot be decoded has a `problem`.
 *
 * @throws RangeError if the protobuf is malformed
 */
export function readBatchRequest(bytes: Buffer, from: number, to: number): WireBatchRequest {
  const octets = to - from;
  if (octets > maximumBatch.octets)
    return refused(status.RESOURCE_EXHAUSTED, `a batch may have at most ${maximumBatch.octets} bytes, got ${octets}`);
  const ends = findRequests(bytes, from, to);
  if (!ends) return refused(status.INVALID_ARGUMENT, `a batch may have at most ${maximumBatch.requests} requests`);
  const requests: WireRequest[] = [];
  let descriptors = 0;
  for (const { start, end } of ends) {
    const request = readOne(bytes, start, end);
    descriptors += request.descriptors.length;
    if (descriptors > maximumBatch.descriptors)
      return refused(
        status.INVALID_ARGUMENT,
        `the requests of a batch may have at most ${maximumBatch.descriptors} descriptors together`,
      );
    requests.push(request);
  }
  return { requests };
}

const refused = (code: status, details: string): WireBatchRequest => ({ requests: [], problem: { code, details } });

/** Offsets of the requests, or undefined if there are too many. */
function findRequests(
  bytes: Buffer,
  from: number,
  to: number,
): readonly { readonly start: number; readonly end: number }[] | undefined {
  const found: { start: number; end: number }[] = [];
  reader.open(bytes, from, to);
  while (reader.at < to) {
    const tag = reader.tag();
    if (tag !== ((1 << 3) | WireType.LENGTH)) reader.skip(tag);
    else if (found.length === maximumBatch.requests) return undefined;
    else {
      const end = reader.length();
      found.push({ start: reader.at, end });
      reader.at = end;
    }
  }
  return found;
}

function readOne(bytes: Buffer, start: number, end: number): WireRequest {
  try {
    return readRateLimitRequest(bytes, start, end);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { domain: '', descriptors: [], hits_addend: 0, problem: `the request cannot be decoded: ${reason}` };
  }
}

export function batchCost({ requests }: WireBatchRequest, octets: number): Cost {
  const octetsEach = requests.length > 0 ? octets / requests.length : octets;
  const costs = requests.map((request) => requestCost(request, octetsEach));
  return {
    bytes: Math.ceil(costs.reduce((sum, { bytes }) => sum + bytes, 0)),
    units: costs.reduce((sum, { units }) => sum + units, 1),
  };
}

/**
 * Encodes a BatchResponse.
 *
 * @param headroom  octets to leave free before the message
 */
export function writeBatchResponse({ answers }: WireBatchResponse, headroom: number): EncodedMessage {
  responseWriter.start(headroom);
  for (const answer of answers) {
    const start = responseWriter.begin(1);
    const outcome = responseWriter.begin('response' in answer ? 1 : 2);
    if ('response' in answer) writeResponse(answer.response);
    else {
      responseWriter.uint32Field(1, answer.status.code);
      responseWriter.textField(2, answer.status.message);
    }
    responseWriter.end(outcome);
    responseWriter.end(start);
  }
  return responseWriter;
}
