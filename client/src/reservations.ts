import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from './caller.ts';
import { WeirUnavailable } from './errors.ts';
import { createHolder, type HoldOptions } from './hold-call.ts';
import { checkNumber, type Descriptor } from './options.ts';
import type { Commit, LimitRequest } from './wire/messages.ts';

const MAX_HITS = 0xffff_ffff;

/** The attempts of a failing commit, and the first pause between them. */
const COMMIT_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;

/** Hits that are reserved until they are committed, or until the reservation expires. */
export interface Reservation {
  readonly id: string;
  /** The reserved hits: those of the request, or more because of the rule's `estimate`. */
  readonly hits: number;
  /** After this time, the hits are free again, and a commit is late. */
  readonly ttlMs: number;
  /**
   * Charges the usage, once, and frees the rest; 0 frees everything. A commit without an answer is sent again.
   *
   * @throws WeirUnavailable  no attempt was answered; `commit` may be called again
   */
  commit(hits: number): Promise<Commit>;
}

/** A reservation, or the time after which it is possible at the latest; undefined if it is unknown. */
export type ReserveOutcome =
  | { readonly ok: true; readonly reservation: Reservation }
  | { readonly ok: false; readonly retryAfterMs: number | undefined };

interface Subject {
  readonly domain: string;
  readonly descriptor: Descriptor;
  readonly hits: number;
}

/** @internal */
export async function reserve(caller: Caller, subject: Subject, options: HoldOptions = {}): Promise<ReserveOutcome> {
  const { domain, descriptor } = subject;
  checkNumber('hits', subject.hits, [1, MAX_HITS]);
  const { id, timeoutMs, request } = createHolder(domain, descriptor, subject.hits, options);
  const commit = async (hits: number) => commitUsed(caller, { ...request, hits: checkUsed(hits) }, timeoutMs);
  try {
    const { signal } = options;
    const answer = await caller.callHolds('Reserve', { request }, { timeoutMs, signal });
    const { reserved, hits, ttlMs, retryAfterMs } = answer;
    return reserved ? { ok: true, reservation: { id, hits, ttlMs, commit } } : { ok: false, retryAfterMs };
  } catch (error) {
    commit(0).catch(() => {}); // the service may have reserved the hits nevertheless
    throw error;
  }
}

const checkUsed = (hits: number): number => Math.round(checkNumber('hits', hits, [0, MAX_HITS]));

async function commitUsed(caller: Caller, request: LimitRequest, timeoutMs: number): Promise<Commit> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await caller.callHolds('Commit', { request }, { timeoutMs });
    } catch (error) {
      if (attempt === COMMIT_ATTEMPTS || !isPassing(error)) throw error;
      await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1));
    }
  }
}

/** Whether a later call may be answered. */
const isPassing = (error: unknown): boolean =>
  error instanceof WeirUnavailable && ['unavailable', 'timeout', 'breaker_open'].includes(error.kind);
