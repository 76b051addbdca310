import { type Outcome, toStatus } from '../../edge/rls/service.ts';
import { decodeRequest } from '../../edge/wire/codec.ts';
import type { WireDuration, WireRequest } from '../../edge/wire/wire.ts';
import { NEVER_MS, unitMs } from '../../engine/algorithms/limit.ts';
import { InvalidRequest, type RateLimitRequest } from '../../engine/decide/decide.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import { CallerGone } from './queues.ts';
import type { CommitAnswer, Reservations, ReserveAnswer } from './reservations.ts';
import type { HoldsCaller, SlotAnswer, Slots, TimedCaller } from './slots.ts';

/** Maximum time that a caller may wait for slots. */
const MAX_DELAY_MS = unitMs.HOUR;

/** `weir.v1.Holds`, independent of the transport. Its methods never reject. */
export type HoldsService = ReturnType<typeof createHoldsService>;

export const createHoldsService = (slots: Slots, reservations: Reservations) => ({
  acquire: (request: AcquireRequest, caller: HoldsCaller) =>
    toOutcome(async () => encode(await slots.acquire(decodeHold(request), maxDelayMs(request), caller))),
  renew: (request: HoldRequest, caller: TimedCaller) =>
    toOutcome(async () => {
      const patient = { timeLeftMs: () => caller.timeLeftMs(), onGone: () => {} };
      return encode(await slots.acquire(decodeHold(request), 0, patient, 'renewed'));
    }),
  release: (request: HoldRequest, caller: TimedCaller) =>
    toOutcome(async (): Promise<object> => {
      await slots.release(decodeHold(request), caller);
      return {};
    }),
  reserve: (request: HoldRequest, caller: TimedCaller) =>
    toOutcome(async () => encodeReserve(await reservations.reserve(decodeHold(request), caller))),
  commit: (request: HoldRequest, caller: TimedCaller) =>
    toOutcome(async () => encodeCommit(await reservations.commit(decodeHold(request), caller))),
});

function maxDelayMs({ max_delay: written }: AcquireRequest): number {
  const ms = written ? Number(written.seconds) * 1_000 + Math.floor(written.nanos / 1e6) : 0;
  if (ms >= 0 && ms <= MAX_DELAY_MS) return ms;
  throw new InvalidRequest(`max_delay must be 0 to ${MAX_DELAY_MS / 1_000} seconds, got ${ms / 1_000}`);
}

/** The answers of its methods, encoded. */
export type AnyHoldAnswer = ReturnType<typeof encode> &
  ReturnType<typeof encodeReserve> &
  ReturnType<typeof encodeCommit>;

const encode = ({ held, ...times }: SlotAnswer) => ({ held, ...encodeTimes(held, times) });

const encodeReserve = ({ reserved, hits, ...times }: ReserveAnswer) => ({
  reserved,
  hits: reserved ? hits : 0,
  ...encodeTimes(reserved, times),
});

const encodeTimes = (isGranted: boolean, { ttlMs, retryAfterMs }: Pick<SlotAnswer, 'ttlMs' | 'retryAfterMs'>) => ({
  ttl: toDuration(isGranted ? ttlMs : 0),
  retry_after: isGranted || retryAfterMs === NEVER_MS ? null : toDuration(retryAfterMs),
});

const outcomes = { committed: 1, late: 2, unknown: 3, repeated: 4 } as const;

const encodeCommit = ({ event, charged, overrun }: CommitAnswer) => ({
  outcome: outcomes[event],
  charged,
  overrun,
});

const MAX_DESCRIPTORS = 64;

/** The outcome of a call, even if it throws. */
export async function toOutcome<R>(run: () => Promise<R>): Promise<Outcome<R>> {
  try {
    return { response: await run() };
  } catch (cause) {
    const isGone = cause instanceof CallerGone;
    return { error: isGone ? { code: status.CANCELLED, details: cause.message } : toStatus(cause) };
  }
}

/** @throws InvalidRequest */
function decodeHold({ request }: HoldRequest): RateLimitRequest {
  if (!request) throw new InvalidRequest('request must not be empty');
  return decodeBounded(request);
}

/** @throws InvalidRequest */
export function decodeBounded(request: WireRequest): RateLimitRequest {
  const { length } = request.descriptors;
  if (length > MAX_DESCRIPTORS) throw new InvalidRequest(`at most ${MAX_DESCRIPTORS} descriptors, got ${length}`);
  return decodeRequest(request);
}

/** @param ms  integer */
const toDuration = (ms: number): WireDuration => ({
  seconds: Math.floor(ms / 1_000),
  nanos: (ms % 1_000) * 1e6,
});

/** The messages of `proto/weir/v1/holds.proto`. */
interface HoldRequest {
  readonly request: WireRequest | null;
}
interface AcquireRequest extends HoldRequest {
  readonly max_delay: WireDuration | null;
}
