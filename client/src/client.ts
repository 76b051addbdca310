import { Caller } from './caller.ts';
import type { Decision } from './decision.ts';
import { LimitExceeded } from './errors.ts';
import type { HoldOptions } from './hold-call.ts';
import type { CallOptions, ClientOptions, Descriptor } from './options.ts';
import { type ReserveOutcome, reserve } from './reservations.ts';
import type { ServerStats } from './server.ts';
import { type Slot, type SlotOptions, type SlotOutcome, takeSlot } from './slots.ts';

/** The statuses that a slot's release states. */
const SUCCEEDED = 200;
const FAILED = 500;

/** Counts since the client was created. */
export interface ClientStats {
  readonly calls: number;
  readonly allowed: number;
  readonly refused: number;
  /** Refusals answered by the client from its cache; they are also in `refused`. */
  readonly rememberedRefusals: number;
  /** Calls that no rule matches, which nothing limits. */
  readonly withoutRule: number;
  /** Calls without an answer from the service, decided by `onError`. */
  readonly failed: number;
  readonly aborted: number;
  readonly batches: number;
  readonly batchedCalls: number;
  /** Calls sent to a second server. */
  readonly retries: number;
  readonly servers: readonly ServerStats[];
}

/** A client of one service, which may have several servers. */
export interface Client {
  /**
   * Asks whether a request may proceed, and counts it. A refusal is an ordinary result, and so is a service that does
   * not answer (`onError`).
   *
   * @param descriptors  one, or several: the request passes only if all of them do
   * @throws TypeError  an argument is invalid; or the reason of `signal`
   */
  limit(domain: string, descriptors: Descriptor | readonly Descriptor[], options?: CallOptions): Promise<Decision>;

  /**
   * Like `limit`, for callers that prefer exceptions.
   *
   * @throws LimitExceeded  the request is refused
   * @throws WeirUnavailable  there is no answer, and `onError` is `deny`
   */
  require(domain: string, descriptors: Descriptor | readonly Descriptor[], options?: CallOptions): Promise<Decision>;

  /**
   * Takes a slot of a limit with `algorithm: in_flight` of Weir. The slot is renewed until it is released.
   *
   * @throws WeirUnavailable  there is no answer; or the reason of `signal`
   */
  slot(domain: string, descriptor: Descriptor, options?: SlotOptions): Promise<SlotOutcome>;

  /**
   * Runs the function while it holds a slot, then releases the slot. A limit with `adapt` learns whether it threw.
   *
   * @throws LimitExceeded  there is no slot within `maxDelayMs`
   * @throws WeirUnavailable  there is no answer; or the error of the function
   */
  withSlot<T>(
    domain: string,
    descriptor: Descriptor,
    run: (slot: Slot) => T | Promise<T>,
    options?: SlotOptions,
  ): Promise<T>;

  /**
   * Reserves hits of a limit of Weir with `reserve`, for requests whose cost is known at their end.
   *
   * @param hits  the expected cost of the request
   * @throws WeirUnavailable  there is no answer; or the reason of `signal`
   */
  reserve(domain: string, descriptor: Descriptor, hits: number, options?: HoldOptions): Promise<ReserveOutcome>;

  /** Waits until a server accepts calls, for 5,000 ms by default. @returns  whether one does */
  ready(options?: { readonly timeoutMs?: number }): Promise<boolean>;

  /** Counts since the client was created. */
  stats(): ClientStats;

  /** Closes all connections. Calls without an answer are settled as if the service did not answer. */
  close(): void;
}

/**
 * Creates a client. It connects at once, without keeping the process alive.
 *
 * @throws TypeError  an option is invalid, or a target cannot be called: without `@grpc/grpc-js`, for instance
 */
export function createClient(options: ClientOptions): Client {
  const caller = new Caller(options);
  const limit: Client['limit'] = (domain, descriptors, callOptions) => caller.limit(domain, descriptors, callOptions);
  return {
    limit,
    async require(domain, descriptors, callOptions) {
      const decision = await limit(domain, descriptors, callOptions);
      if (decision.ok) return decision;
      if (decision.error && decision.source === 'client_deny') throw decision.error;
      throw new LimitExceeded(domain, decision);
    },
    slot: (domain, descriptor, slotOptions) => takeSlot(caller, { domain, descriptor }, slotOptions),
    async withSlot(domain, descriptor, run, slotOptions) {
      const outcome = await takeSlot(caller, { domain, descriptor }, slotOptions);
      if (!outcome.ok) throw new LimitExceeded(domain, undefined, outcome.retryAfterMs);
      let status = FAILED;
      try {
        const result = await run(outcome.slot);
        status = SUCCEEDED;
        return result;
      } finally {
        await outcome.slot.release(status);
      }
    },
    reserve: (domain, descriptor, hits, holdOptions) => reserve(caller, { domain, descriptor, hits }, holdOptions),
    ready: ({ timeoutMs = 5_000 } = {}) => caller.ready(timeoutMs),
    stats: () => caller.stats(),
    close: () => caller.close(),
  };
}
