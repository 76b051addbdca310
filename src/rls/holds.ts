import { NEVER_MS, unitMs } from '../algorithms/limit.ts';
import { InvalidRequest, type RateLimitRequest } from '../decide.ts';
import { status } from '../grpc-status.ts';
import { CallerGone } from '../slots/queues.ts';
import type { SlotAnswer, Slots } from '../slots/slots.ts';
import { decodeRequest } from './codec.ts';
import type { AcquireRequest, HoldRequest, HoldResponse, WireDuration } from './proto.ts';
import { type GrpcStatus, toStatus } from './service.ts';

const MAX_DESCRIPTORS = 64;
/** The longest that a caller may wait for slots. */
const MAX_DELAY_MS = unitMs.HOUR;

/** The outcome of a call of `weir.v1.Holds`. */
export type HoldOutcome<R> = { readonly response: R } | { readonly error: GrpcStatus };

/** `weir.v1.Holds`, independent of the transport. Never rejects. */
export interface HoldsService {
  /** @param onGone  calls the listener once if the caller gives up */
  acquire(request: AcquireRequest, onGone: (listener: () => void) => void): Promise<HoldOutcome<HoldResponse>>;
  renew(request: HoldRequest): Promise<HoldOutcome<HoldResponse>>;
  release(request: HoldRequest): Promise<HoldOutcome<object>>;
}

export function createHoldsService(slots: Slots): HoldsService {
  return {
    acquire: (request, onGone) =>
      outcomeOf(async () => encode(await slots.acquire(decode(request), maxDelayMs(request), onGone))),
    renew: (request) => outcomeOf(async () => encode(await slots.acquire(decode(request), 0, () => {}))),
    release: (request) =>
      outcomeOf(async () => {
        await slots.release(decode(request));
        return {};
      }),
  };
}

async function outcomeOf<R>(run: () => Promise<R>): Promise<HoldOutcome<R>> {
  try {
    return { response: await run() };
  } catch (cause) {
    const isGone = cause instanceof CallerGone;
    return { error: isGone ? { code: status.CANCELLED, details: cause.message } : toStatus(cause) };
  }
}

function decode({ request }: HoldRequest): RateLimitRequest {
  if (!request) throw new InvalidRequest('request must not be empty');
  const { length } = request.descriptors;
  if (length > MAX_DESCRIPTORS) throw new InvalidRequest(`at most ${MAX_DESCRIPTORS} descriptors, got ${length}`);
  return decodeRequest(request);
}

function maxDelayMs({ max_delay: written }: AcquireRequest): number {
  const ms = written ? Number(written.seconds) * 1_000 + Math.floor(written.nanos / 1e6) : 0;
  if (ms >= 0 && ms <= MAX_DELAY_MS) return ms;
  throw new InvalidRequest(`max_delay must be 0 to ${MAX_DELAY_MS / 1_000} seconds, got ${ms / 1_000}`);
}

const encode = ({ held, ttlMs, retryAfterMs }: SlotAnswer): HoldResponse => ({
  held,
  ttl: durationOf(held ? ttlMs : 0),
  retry_after: held || retryAfterMs === NEVER_MS ? null : durationOf(retryAfterMs),
});

const durationOf = (ms: number): WireDuration => ({ seconds: Math.floor(ms / 1_000), nanos: (ms % 1_000) * 1e6 });
