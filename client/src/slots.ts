import type { Caller } from './caller.ts';
import { callHolds, type HoldCall, type HoldMethod, type HoldOptions, holderOf } from './hold-call.ts';
import { checkNumber, type Descriptor } from './options.ts';
import { decodeHold } from './wire/decode-holds.ts';
import type { LimitRequest } from './wire/messages.ts';

const MAX_DELAY_MS = 3_600_000;
/** How many times a slot is renewed within its ttl. */
const RENEWALS_PER_TTL = 3;
const MIN_RENEWAL_MS = 20;
const MAX_RENEWAL_MS = 0x7fff_ffff;

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
  /** Aborts when the slot is lost: it expired before it could be renewed, and another holder may have it. */
  readonly signal: AbortSignal;
  /** Releases the slot. Never rejects: if the release is lost, the slot expires. */
  release(): Promise<void>;
}

/** Whether there is a slot; if not, the time after which there is one, at the latest (undefined: unknown). */
export type SlotOutcome =
  | { readonly ok: true; readonly slot: Slot }
  | { readonly ok: false; readonly retryAfterMs: number | undefined };

/** `weir.v1.Holds`. */
export interface Slots {
  take(domain: string, descriptor: Descriptor, options?: SlotOptions): Promise<SlotOutcome>;
}

export function createSlots(caller: Caller): Slots {
  return {
    async take(domain, descriptor, options = {}) {
      const { hits = 1, maxDelayMs = 0, signal } = options;
      checkNumber('maxDelayMs', maxDelayMs, [0, MAX_DELAY_MS]);
      checkNumber('hits', hits, [1, MAX_HELD]);
      const { id, timeoutMs, request } = holderOf(domain, descriptor, hits, options);
      const release = () => call(caller, 'Release', { request, timeoutMs }).catch(() => {});
      const free = caller.hold();
      try {
        const { held, ttlMs, retryAfterMs } = await call(caller, 'Acquire', { request, timeoutMs, maxDelayMs, signal });
        if (held) return { ok: true, slot: hold(caller, { id, request, timeoutMs, ttlMs, free }) };
        free();
        return { ok: false, retryAfterMs };
      } catch (error) {
        void release().then(free); // the service may have granted a slot nevertheless
        throw error;
      }
    },
  };
}

/** The most slots that a limit with ids may have. */
const MAX_HELD = 1_000;

type SlotMethod = Extract<HoldMethod, 'Acquire' | 'Renew' | 'Release'>;

const call = async (caller: Caller, method: SlotMethod, options: HoldCall) =>
  decodeHold(await callHolds(caller, method, options));

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
    const waitMs = Math.min(Math.max(MIN_RENEWAL_MS, ttlMs / RENEWALS_PER_TTL), MAX_RENEWAL_MS);
    timer = setTimeout(() => {
      renewing = renew();
    }, waitMs).unref();
  };
  const renew = async () => {
    const sentMs = performance.now();
    try {
      const answer = await call(caller, 'Renew', { request, timeoutMs: Math.min(timeoutMs, expiresMs - sentMs + 1) });
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
  const releaseAfter = async (renewal: Promise<void> | undefined) => {
    await renewal;
    await call(caller, 'Release', { request, timeoutMs }).catch(() => {});
    if (!lost.signal.aborted) held.free();
  };
  schedule(held.ttlMs);
  return {
    id,
    signal: lost.signal,
    release() {
      clearTimeout(timer);
      released ??= releaseAfter(renewing); // a renewal that arrives later would take the slot again
      return released;
    },
  };
}
