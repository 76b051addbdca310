import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from './caller.ts';
import { WeirUnavailable } from './errors.ts';
import { callHolds, type HoldOptions, holderOf } from './hold-call.ts';
import { checkNumber, type Descriptor } from './options.ts';
import { decodeCommit, decodeReserve } from './wire/decode-holds.ts';
import type { LimitRequest } from './wire/messages.ts';

const MAX_HITS = 0xffff_ffff;

/** A commit that fails is sent again, so often and after so long at first. */
const COMMIT_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;

/**
 * What became of a commit. `late`: the reservation had expired, `unknown`: there was none under this id; both are
 * charged all the same. `repeated`: it has been committed before, and nothing is charged.
 */
export type CommitOutcome = 'committed' | 'late' | 'unknown' | 'repeated';

/** The answer to a commit. */
export interface Commit {
  readonly outcome: CommitOutcome;
  readonly charged: number;
  /** Used beyond what was reserved. With `on_overrun: clip` it is not charged. */
  readonly overrun: number;
}

/** Hits that are reserved until they are committed, or until their time is over. */
export interface Reservation {
  readonly id: string;
  /** What is reserved: the hits of the request, or more by the rule's `estimate`. */
  readonly hits: number;
  /** After so long the hits are free again, and a commit is late. */
  readonly ttlMs: number;
  /**
   * Charges what was used, once, and frees the rest; 0 frees all. A commit without an answer is sent again.
   *
   * @throws WeirUnavailable  there is no answer to any of them; `commit` may be called again
   */
  commit(hits: number): Promise<Commit>;
}

/** Whether the hits are reserved; else, until when at the latest they could not be (undefined: not known). */
export type ReserveOutcome =
  | { readonly ok: true; readonly reservation: Reservation }
  | { readonly ok: false; readonly retryAfterMs: number | undefined };

interface Subject {
  readonly domain: string;
  readonly descriptor: Descriptor;
  readonly hits: number;
}

const outcomes: readonly (CommitOutcome | undefined)[] = [undefined, 'committed', 'late', 'unknown', 'repeated'];

export async function reserve(caller: Caller, subject: Subject, options: HoldOptions = {}): Promise<ReserveOutcome> {
  const { domain, descriptor } = subject;
  checkNumber('hits', subject.hits, [1, MAX_HITS]);
  const { id, timeoutMs, request } = holderOf(domain, descriptor, subject.hits, options);
  const commit = async (hits: number) => commitUsed(caller, { ...request, hits: checkUsed(hits) }, timeoutMs);
  try {
    const answer = await callHolds(caller, 'Reserve', { request, timeoutMs, signal: options.signal });
    const { reserved, hits, ttlMs, retryAfterMs } = decodeReserve(answer);
    return reserved ? { ok: true, reservation: { id, hits, ttlMs, commit } } : { ok: false, retryAfterMs };
  } catch (error) {
    commit(0).catch(() => {}); // the service may have reserved all the same
    throw error;
  }
}

const checkUsed = (hits: number): number => Math.round(checkNumber('hits', hits, [0, MAX_HITS]));

async function commitUsed(caller: Caller, request: LimitRequest, timeoutMs: number): Promise<Commit> {
  for (let attempt = 1; ; attempt++) {
    try {
      const { outcome, charged, overrun } = decodeCommit(await callHolds(caller, 'Commit', { request, timeoutMs }));
      return { outcome: outcomes[outcome] ?? 'committed', charged, overrun };
    } catch (error) {
      if (attempt === COMMIT_ATTEMPTS || !isPassing(error)) throw error;
      await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1));
    }
  }
}

/** Whether the same call may be answered later. */
const isPassing = (error: unknown): boolean =>
  error instanceof WeirUnavailable && ['unavailable', 'timeout', 'breaker_open'].includes(error.kind);
