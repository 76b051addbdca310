import { monotonicMs } from '../../base/clock.ts';
import type { WireBatchAnswer, WireBatchRequest, WireBatchResponse } from './batch-messages.ts';
import type { Caller, CallOutcome, GrpcStatus, RlsService } from './service.ts';

/** The outcome of a call of `weir.v1.Batch`. */
export type BatchOutcome = { readonly response: WireBatchResponse } | { readonly error: GrpcStatus };

/** Decides several requests of one caller independently. Never throws. */
type DecideBatch = (batch: WireBatchRequest, caller: Caller, reply: (outcome: BatchOutcome) => void) => void;

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
        answers[at] = answerOf(outcome);
        if (--missing === 0) reply({ response: { answers } });
      });
  };
}

/** The caller of every request in a batch: a transport remembers one listener per call. */
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
    onGone(listener) {
      if (isGone) listener();
      else listeners.push(listener);
    },
  };
}

const answerOf = (outcome: CallOutcome): WireBatchAnswer =>
  'error' in outcome ? { status: { code: outcome.error.code, message: outcome.error.details } } : outcome;
