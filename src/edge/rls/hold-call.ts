import { InvalidRequest, type RateLimitRequest } from '../../engine/decide/decide.ts';
import { CallerGone } from '../../engine/holds/queues.ts';
import { decodeRequest } from '../../engine/wire/codec.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { HoldRequest, WireDuration } from './proto.ts';
import { type GrpcStatus, toStatus } from './service.ts';

const MAX_DESCRIPTORS = 64;

/** The outcome of a call of `weir.v1.Holds`, or of Kuadrant's service. */
export type HoldOutcome<R> = { readonly response: R } | { readonly error: GrpcStatus };

/** The outcome of a call, even if it throws. */
export async function outcomeOf<R>(run: () => Promise<R>): Promise<HoldOutcome<R>> {
  try {
    return { response: await run() };
  } catch (cause) {
    const isGone = cause instanceof CallerGone;
    return { error: isGone ? { code: status.CANCELLED, details: cause.message } : toStatus(cause) };
  }
}

/** @throws InvalidRequest */
export function decodeHold({ request }: HoldRequest): RateLimitRequest {
  if (!request) throw new InvalidRequest('request must not be empty');
  return decodeBounded(request);
}

/** @throws InvalidRequest */
export function decodeBounded(request: WireRequest): RateLimitRequest {
  const { length } = request.descriptors;
  if (length > MAX_DESCRIPTORS) throw new InvalidRequest(`at most ${MAX_DESCRIPTORS} descriptors, got ${length}`);
  return decodeRequest(request);
}

/** @param ms  an integer */
export const durationOf = (ms: number): WireDuration => ({
  seconds: Math.floor(ms / 1_000),
  nanos: (ms % 1_000) * 1e6,
});
