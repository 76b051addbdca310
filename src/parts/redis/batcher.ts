import type { Monotonic } from '../../base/clock.ts';
import { type Eventual, Later } from '../../base/later.ts';
import type { Recall, Replies, Unavailable } from '../../engine/backends/backend.ts';
import type { Lateness } from '../../engine/backends/lateness.ts';
import { MAX_CALL_WORK, measureWork, StoreWork } from '../../engine/backends/store-work.ts';
import type { BatchRequest } from './batch.ts';
import type { Breaker } from './breaker.ts';
import { describeError, isUnsent } from './reason.ts';

/** Approximate maximum of hits in a call; more would delay other clients of Redis. */
const MAX_HITS = 256;
/** Approximate characters of keys in a call. */
const MAX_KEY_CHARS = 65_536;

/** Fraction of a wait that this process did not run for if it is to blame for the timeout. */
const LATE_SHARE = 0.5;

/** Weight of the last call in the moving average of the time per call. */
const NEWEST_CALL_WEIGHT = 0.2;

/** While calls take longer than this, requests share a call only up to `MAX_CALL_WORK`. */
const LONG_CALL_MS = 8;
/** Minimum time for which a timer is set again, which is the resolution of timers. */
const TIMER_MS = 1;
/** Factor by which the duration of a long call decays with each later one. */
const PEAK_DECAY = 0.9;

/** Work of a call beyond that of an ordinary one, in whole multiples; only calls with one request have any. */
function measureExtraWork([only, other]: readonly Waiting[]): number {
  return only && !other ? Math.max(Math.ceil(measureWork(only.request.operations) / MAX_CALL_WORK) - 1, 0) : 0;
}

/** Multiple of a call's longest time limit, or of the average duration of calls, after which a node is silent. */
const WAITS_OF_SILENCE = 4;
/** Shortest silence of a node that counts as a failure, for callers with Envoy's default timeout or a shorter one. */
const MIN_SILENCE_MS = 60;

/** Weight of the last call in the moving average of the overdue ones, and the average from which the node is slow. */
const NEWEST_OVERDUE_WEIGHT = 0.05;
const SLOW_SHARE = 0.5;

/** Shortest time without a reply that counts as longer than usual. */
const MIN_PAUSE_MS = 5;

interface Wait {
  /** Its end, unless time in which this process does not run extends it. */
  readonly untilMs: number;
  readonly timeoutMs: number;
  /** Maximum wait, however long this process does not run. */
  readonly longestMs: number;
  /** How long this process had not run when the wait began. */
  readonly stoodMs: number;
  /** Calls in flight hold it back, so that its replies may become known meanwhile. */
  readonly isHeldBack: boolean;
}

/** A request that is queued or sent, and its replies. */
class Waiting extends Later<Replies> {
  readonly request: BatchRequest;
  readonly wait: Wait;

  constructor(request: BatchRequest, wait: Wait) {
    super();
    this.request = request;
    this.wait = wait;
  }
}

/** A call that was sent. */
interface Call {
  readonly requests: readonly Waiting[];
  readonly breaker: Breaker;
  readonly sentAtMs: number;
  /** How long this process had not run then. */
  readonly stoodMs: number;
  /** How long it may take. */
  readonly allowedMs: number;
  readonly extraWork: number;
  /** It, or a call before it, is costly. */
  readonly isBehindCostly: boolean;
  /** Neither answered nor failed. */
  isPending: boolean;
}

interface BatcherOptions {
  /** Counts a batch in one call. */
  readonly send: (requests: readonly BatchRequest[]) => Promise<readonly Replies[]>;
  /** What is known of a request when it is its turn. */
  readonly recall: Recall;
  /** The reply to a hit that could not be counted. */
  readonly unavailable: (reason: string) => Unavailable;
  /** The lag of this process: silence of the node while it did not run says nothing about the node. */
  readonly lateness: Lateness;
  /** Maximum number of calls in flight: requests that arrive meanwhile wait for one of them, and are sent together. */
  readonly maxInFlight: number;
  /**
   * A call that takes longer while this process runs has failed, even if a reply arrives later; earlier if all of its
   * callers wait for much less. A costly call, and those behind it, may take proportionally longer, and do not show
   * whether the node has failed.
   */
  readonly slowMs: number;
  /** Called with the time of a call while most take longer than any of their callers waits. */
  readonly onSlow: (tookMs: number) => void;
  /** The breaker of the node that receives the calls. */
  readonly breaker: () => Breaker;
  /** Whether an error is a reply of the node, which is up then, so that the circuit remains closed. */
  readonly isAnswer: (error: unknown) => boolean;
  /** Milliseconds on a clock that never runs backwards. */
  readonly monotonicMs: Monotonic;
  /** Runs a function in the next turn of the event loop. */
  readonly inNextTurn: (send: () => void) => void;
}

/**
 * Combines requests of one turn of the event loop, and those that arrive while calls are in flight, into one call.
 * Batches are not delayed by a timer, and expired requests are not sent. A request that would wait beyond its deadline
 * is refused immediately, since under overload every answer would otherwise be late, and Redis would work on requests
 * whose callers have given up.
 *
 * A timer that fires checks again after a `setImmediate`: on a busy core the reply may already be in the socket, and
 * timers come before sockets in a turn of the event loop.
 */
export class Batcher {
  readonly #options: BatcherOptions;
  readonly #nowMs: Monotonic;
  #queue: Waiting[] = [];
  #queuedHits = 0;
  /** Approximate duration of a call. */
  #callMs = 0;
  /** Duration of the longest recent call, which decays. */
  #peakMs = 0;
  /** Approximate share of calls for whose replies nobody waited any more. */
  #overdueShare = 0;
  /** Time of the first call since the last reply, or of that reply while calls are in flight; else undefined. */
  #waitsSinceMs: number | undefined;
  /** The calls without a reply, unordered. Not a Set: see `StreamIndex`. */
  readonly #sent: Call[] = [];
  #inFlight = 0;
  /** By how much the calls in flight exceed the work of an ordinary one, in its multiples. */
  #extraWork = 0;
  #isScheduled = false;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;

  constructor(options: BatcherOptions) {
    this.#options = options;
    this.#nowMs = options.monotonicMs;
  }

  /** Never rejects: operations that cannot be answered in time are unavailable. */
  run(request: BatchRequest, timeoutMs: number, longestMs = timeoutMs): Eventual<Replies> {
    const { operations } = request;
    const { breaker, lateness, unavailable } = this.#options;
    const refusal = breaker().refusal;
    if (refusal !== undefined) return operations.map(() => unavailable(refusal));
    const tooMany = this.#tooManyBefore(timeoutMs);
    if (tooMany !== undefined) return operations.map(() => ({ ...unavailable(tooMany), isOverload: true }));
    const untilMs = this.#nowMs() + timeoutMs;
    const isHeldBack = this.#inFlight >= this.#options.maxInFlight;
    const waiting = new Waiting(request, { untilMs, timeoutMs, longestMs, stoodMs: lateness.stoodMs, isHeldBack });
    this.#queue.push(waiting);
    this.#queuedHits += operations.length;
    this.#watch(untilMs);
    this.#schedule();
    return waiting;
  }

  /** Whether the node owes a reply for much longer than replies take. */
  isSilent(nowMs: number): boolean {
    if (this.#waitsSinceMs === undefined) return false;
    return nowMs - this.#waitsSinceMs > Math.max(WAITS_OF_SILENCE * this.#callMs, MIN_PAUSE_MS);
  }

  /** Stops watching deadlines after the connection has ended, and all calls with it. */
  close(): void {
    clearTimeout(this.#timer);
  }

  /** Why to refuse a request with this time limit, if so. Never the next call, so that recovery is measured. */
  #tooManyBefore(timeoutMs: number): string | undefined {
    const callsBefore = Math.floor(this.#queuedHits / MAX_HITS);
    if (callsBefore === 0) return undefined;
    const waitMs = this.#callMs * (1 + callsBefore / this.#options.maxInFlight);
    return waitMs > timeoutMs ? `too many requests wait: no reply within ${timeoutMs} ms` : undefined;
  }

  #schedule(): void {
    if (this.#isScheduled || this.#inFlight >= this.#options.maxInFlight) return;
    this.#isScheduled = true;
    this.#options.inNextTurn(() => {
      this.#isScheduled = false;
      while (this.#queue.length > 0 && this.#inFlight < this.#options.maxInFlight && !this.#giveUpQueue())
        this.#sendUnknown(this.#take());
    });
  }

  /** If the circuit has opened, refuses the queue. */
  #giveUpQueue(): boolean {
    const refusal = this.#options.breaker().refusal;
    if (refusal === undefined) return false;
    this.#queuedHits = 0;
    for (const waiting of this.#queue.splice(0)) this.#giveUp(waiting, this.#options.unavailable(refusal));
    return true;
  }

  #take(): readonly Waiting[] {
    let hits = 0;
    let chars = 0;
    let count = 0;
    // most states are shorter than the longest, which the work is computed for
    const work = this.#peakMs > LONG_CALL_MS ? new StoreWork() : undefined;
    for (const { request } of this.#queue) {
      hits += request.operations.length;
      for (const operation of request.operations) {
        chars += operation.key.length;
        work?.add(operation);
      }
      if (count > 0 && (hits > MAX_HITS || chars > MAX_KEY_CHARS || (work && work.sum > MAX_CALL_WORK))) break;
      count++;
    }
    const taken = this.#queue.splice(0, count);
    for (const { request } of taken) this.#queuedHits -= request.operations.length;
    return taken;
  }

  /** Answers the requests whose replies have become known while they were held back, and sends the others. */
  #sendUnknown(requests: readonly Waiting[]): void {
    const known: (readonly [Waiting, Replies])[] = [];
    const unknown = requests.filter((waiting) => {
      const replies = waiting.wait.isHeldBack ? this.#options.recall(waiting.request.operations) : undefined;
      if (replies) known.push([waiting, replies]);
      return !replies;
    });
    if (unknown.length > 0) this.#send(unknown);
    for (const [waiting, replies] of known) waiting.resolve(replies); // its caller may run more
  }

  #send(requests: readonly Waiting[]): void {
    const { send, isAnswer, lateness, unavailable } = this.#options;
    const call = this.#begin(requests);
    lateness.began();
    call.breaker.began();
    send(requests.map(({ request }) => request)).then(
      (answers) => {
        this.#forget(call);
        this.#succeed(call);
        for (const [at, waiting] of requests.entries()) waiting.resolve(answers[at] ?? []); // its caller may run more
      },
      (error: unknown) => {
        const reason = describeError(error);
        this.#forget(call);
        if (isAnswer(error)) this.#succeed(call);
        else this.#fail(call, reason);
        const isUnknown = !isAnswer(error) && !isUnsent(error);
        for (const waiting of requests) this.#giveUp(waiting, unavailable(reason), isUnknown);
      },
    );
  }

  #begin(requests: readonly Waiting[]): Call {
    const sentAtMs = this.#nowMs();
    const extraWork = measureExtraWork(requests);
    this.#extraWork += extraWork;
    const call: Call = {
      ...{ requests, sentAtMs, extraWork },
      breaker: this.#options.breaker(),
      stoodMs: this.#options.lateness.stoodMs,
      isBehindCostly: this.#extraWork > 0,
      allowedMs: this.#allowedMs(requests),
      isPending: true,
    };
    this.#inFlight++;
    this.#sent.push(call);
    this.#waitsSinceMs ??= sentAtMs;
    this.#watch(sentAtMs + call.allowedMs);
    return call;
  }

  #succeed(call: Call): void {
    if (!call.isPending) return; // too late
    this.#notePeak(this.#noteReply(call));
    call.breaker.succeeded();
    this.#end(call);
  }

  #fail(call: Call, reason: string, isInconclusive = false): void {
    if (!call.isPending) return;
    if (isInconclusive) call.breaker.inconclusive();
    else call.breaker.failed(reason);
    this.#end(call); // a slow call makes room for the next
  }

  #end(call: Call): void {
    call.isPending = false;
    this.#inFlight--;
    this.#extraWork -= call.extraWork;
    this.#options.lateness.ended();
    if (this.#queue.length > 0 && !this.#giveUpQueue()) this.#schedule();
  }

  /** Fails a call that takes too long while this process runs, or looks again later. */
  #failIfSlow(call: Call, nowMs: number): void {
    if (!call.isPending) return;
    const stoodMs = this.#options.lateness.stoodAtMs(nowMs) - call.stoodMs;
    const leftMs = call.allowedMs - (nowMs - call.sentAtMs - stoodMs);
    if (leftMs >= TIMER_MS) return this.#watch(nowMs + leftMs);
    this.#notePeak(call.allowedMs);
    if (!call.isBehindCostly) this.#noteOverdue(true, call.allowedMs);
    // the node is not to blame for the time that a limit takes, and other calls wait while it works on a costly one
    this.#fail(call, `no reply within ${call.allowedMs} ms`, call.isBehindCostly);
  }

  #notePeak(ms: number): void {
    this.#peakMs = Math.max(ms, this.#peakMs * PEAK_DECAY);
  }

  #noteOverdue(isOverdue: boolean, tookMs: number): void {
    this.#overdueShare += (Number(isOverdue) - this.#overdueShare) * NEWEST_OVERDUE_WEIGHT;
    if (this.#overdueShare > SLOW_SHARE) this.#options.onSlow(tookMs);
  }

  /** Returns how long the call took. */
  #noteReply({ sentAtMs, stoodMs, requests }: Call): number {
    const nowMs = this.#nowMs();
    this.#waitsSinceMs = this.#inFlight > 1 ? nowMs : undefined;
    const tookMs = nowMs - sentAtMs;
    const workedMs = tookMs - (this.#options.lateness.stoodAtMs(nowMs) - stoodMs);
    this.#noteOverdue(!requests.some(({ wait }) => workedMs <= wait.timeoutMs), workedMs);
    this.#callMs += (tookMs - this.#callMs) * NEWEST_CALL_WEIGHT;
    return tookMs;
  }

  /** How long a call may take before it counts as failed. */
  #allowedMs(requests: readonly Waiting[]): number {
    const longestMs = requests.reduce((mostMs, { wait }) => Math.max(mostMs, wait.timeoutMs), this.#callMs);
    const silenceMs = WAITS_OF_SILENCE * longestMs;
    return Math.min(this.#options.slowMs, Math.max(silenceMs, MIN_SILENCE_MS)) * (1 + this.#extraWork);
  }

  #forget(call: Call): void {
    const last = this.#sent.pop();
    if (last !== undefined && last !== call) this.#sent[this.#sent.indexOf(call)] = last;
  }

  /** @param isUnknown  the request was sent, and may have been counted */
  #giveUp(waiting: Waiting, failure: Unavailable, isUnknown = false): void {
    const reply: Unavailable = isUnknown ? { ...failure, isUnknown } : failure;
    waiting.resolve(waiting.request.operations.map(() => reply));
  }

  #expireOne(waiting: Waiting, isSent: boolean): void {
    const { unavailable, lateness } = this.#options;
    const { timeoutMs, untilMs, stoodMs: stoodBeforeMs } = waiting.wait;
    const nowMs = this.#nowMs();
    const reason = `no reply within ${timeoutMs} ms`;
    const waitedMs = nowMs - untilMs + timeoutMs;
    const stoodMs = lateness.stoodAtMs(nowMs) - stoodBeforeMs;
    if (stoodMs < waitedMs * LATE_SHARE) return this.#giveUp(waiting, unavailable(reason), isSent);
    const late = unavailable(`${reason}: this process was ${Math.round(stoodMs)} ms late`);
    this.#giveUp(waiting, { ...late, isOverload: true }, isSent);
  }

  /** The end of a wait, extended by the time in which this process has not run. */
  #extendedUntilMs({ untilMs, timeoutMs, longestMs, stoodMs }: Wait, nowMs: number): number {
    const extraMs = Math.min(this.#options.lateness.stoodAtMs(nowMs) - stoodMs, longestMs - timeoutMs);
    return untilMs + Math.max(Math.ceil(extraMs), 0);
  }

  /** Ensures that a timer checks at this time. */
  #watch(untilMs: number): void {
    if (untilMs >= this.#timerAtMs) return;
    clearTimeout(this.#timer);
    this.#timerAtMs = untilMs;
    this.#timer = setTimeout(() => setImmediate(() => this.#expire()), Math.max(untilMs - this.#nowMs(), 0));
  }

  #expire(): void {
    const nowMs = this.#nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    let expired: Waiting[] = [];
    const isInTime = (waiting: Waiting): boolean => {
      if (waiting.isSettled) return false;
      const { wait } = waiting;
      const untilMs = wait.untilMs <= nowMs ? this.#extendedUntilMs(wait, nowMs) : wait.untilMs;
      if (untilMs <= nowMs) {
        expired.push(waiting);
        return false;
      }
      nextMs = Math.min(nextMs, untilMs);
      return true;
    };
    for (const { requests } of this.#sent) requests.forEach(isInTime);
    const sent = expired;
    expired = [];
    this.#queue = this.#queue.filter(isInTime);
    this.#queuedHits = this.#queue.reduce((sum, { request }) => sum + request.operations.length, 0);
    this.#timerAtMs = Number.POSITIVE_INFINITY;
    this.#watch(nextMs);
    for (const waiting of sent) this.#expireOne(waiting, true); // its caller may run more
    for (const waiting of expired) this.#expireOne(waiting, false);
    for (const call of this.#sent.slice()) this.#failIfSlow(call, nowMs);
  }
}
