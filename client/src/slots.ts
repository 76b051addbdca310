import type { Caller } from './caller.ts';
import { createHolder, type HoldOptions } from './hold-call.ts';
import { checkNumber, type Descriptor } from './options.ts';
import type { LimitRequest } from './wire/messages.ts';

const MAX_DELAY_MS = 3_600_000;
/** Renewals of a slot within its ttl. */
const RENEWALS_PER_TTL = 3;
const MIN_RENEWAL_MS = 20;
const MAX_TIMER_MS = 0x7fff_ffff;

/** Options of `slot` and `withSlot`. */
export interface SlotOptions extends HoldOptions {
  /** Slots to take at once. Default: 1. */
  readonly hits?: number;
  /** How long to wait for a slot. Default: not at all. */
  readonly maxDelayMs?: number;
}

/** A slot, which is renewed until it is released. */
export interface Slot {
  readonly id: string;
  /** Aborts when the slot has expired before it could be renewed, so that another holder may have it. */
  readonly signal: AbortSignal;
  /**
   * Releases the slot. Never rejects, since a slot whose release is lost expires.
   *
   * @param status  the HTTP status of what was done with the slot; a limit with `adapt` takes 500 and above for
   *                a sign of overload. Default: none
   */
  release(status?: number): Promise<void>;
}

/** A slot, or the time after which there is one at the latest; undefined if it is unknown. */
export type SlotOutcome =
  | { readonly ok: true; readonly slot: Slot }
  | { readonly ok: false; readonly retryAfterMs: number | undefined };

interface Subject {
  readonly domain: string;
  readonly descriptor: Descriptor;
}

/** @internal */
export async function takeSlot(
  caller: Caller,
  { domain, descriptor }: Subject,
  options: SlotOptions = {},
): Promise<SlotOutcome> {
  const { hits = 1, maxDelayMs = 0, signal } = options;
  checkNumber('maxDelayMs', maxDelayMs, [0, MAX_DELAY_MS]);
  checkNumber('hits', hits, [1, MAX_HELD]);
  const { id, timeoutMs, request } = createHolder(domain, descriptor, hits, options);
  const acquiring = { timeoutMs: Math.min(timeoutMs + maxDelayMs, MAX_TIMER_MS), signal };
  const free = caller.hold();
  try {
    const { held, ttlMs, retryAfterMs } = await caller.callHolds('Acquire', { request, maxDelayMs }, acquiring);
    if (held) return { ok: true, slot: hold(caller, { id, request, timeoutMs, ttlMs, free }) };
    free();
    return { ok: false, retryAfterMs };
  } catch (error) {
    void release(caller, { request, timeoutMs }).then(free); // the service may have granted a slot nevertheless
    throw error;
  }
}

/** Maximum slots of a limit with ids. */
const MAX_HELD = 1_000;

/** Never rejects, since a slot whose release is lost expires. */
const release = (caller: Caller, { request, timeoutMs }: Pick<HeldSlot, 'request' | 'timeoutMs'>): Promise<void> =>
  caller.callHolds('Release', { request }, { timeoutMs }).catch(() => {});

/** The same request, whose hits state a status: such a release frees all slots of the holder. */
const stating = (request: LimitRequest, status: number): LimitRequest => ({ ...request, hits: status });

interface HeldSlot {
  readonly id: string;
  readonly request: LimitRequest;
  readonly timeoutMs: number;
  readonly ttlMs: number;
  /** Called once when the slot is released or lost. */
  readonly free: () => void;
}

/** Renews the slot until it is released or lost. */
function hold(caller: Caller, held: HeldSlot): Slot {
  const { id, request, timeoutMs } = held;
  const lost = new AbortController();
  let expiresMs = performance.now() + held.ttlMs;
  let timer: NodeJS.Timeout | undefined;
  let renewing: Promise<void> | undefined;
  let released: Promise<void> | undefined;
  const schedule = (ttlMs: number) => {
    const waitMs = Math.min(Math.max(MIN_RENEWAL_MS, ttlMs / RENEWALS_PER_TTL), MAX_TIMER_MS);
    timer = setTimeout(() => {
      renewing = renew();
    }, waitMs).unref();
  };
  const renew = async () => {
    const sentMs = performance.now();
    try {
      const renewing = { timeoutMs: Math.min(timeoutMs, expiresMs - sentMs + 1) };
      const answer = await caller.callHolds('Renew', { request }, renewing);
      if (released) return;
      if (!answer.held) return lose(new Error(`slot ${id} has expired`));
      expiresMs = sentMs + answer.ttlMs;
      schedule(answer.ttlMs);
    } catch (cause) {
      if (released) return;
      const leftMs = expiresMs - performance.now();
      if (leftMs <= 0) lose(new Error(`slot ${id} could not be renewed`, { cause }));
      else schedule(leftMs);
    }
  };
  const lose = (reason: Error) => {
    lost.abort(reason);
    held.free();
  };
  const releaseAfter = async (renewal: Promise<void> | undefined, status: number | undefined) => {
    await renewal;
    await release(caller, { request: status === undefined ? request : stating(request, status), timeoutMs });
    if (!lost.signal.aborted) held.free();
  };
  schedule(held.ttlMs);
  return {
    id,
    signal: lost.signal,
    release(status) {
      if (status !== undefined) checkNumber('status', status, [100, 599]);
      clearTimeout(timer);
      released ??= releaseAfter(renewing, status); // a renewal that arrives later would take the slot again
      return released;
    },
  };
}
