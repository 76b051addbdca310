import type { Breaker, BreakerState } from './breaker.ts';
import { WeirUnavailable } from './errors.ts';
import type { Outcome, Transport } from './transport/transport.ts';

const HEALTH_TIMEOUT_MS = 1_000;

/** Maximum requests in flight to one server, and as many that must not wait for others; further ones are queued. */
const MAX_REQUESTS = 512;

/** The state of one server. */
export interface ServerStats {
  readonly target: string;
  readonly breaker: BreakerState;
  readonly inFlight: number;
  /** Messages sent; a batch counts once. */
  readonly sent: number;
  readonly failed: number;
  /** Whether it accepts batches; undefined before the first one. */
  readonly takesBatches: boolean | undefined;
}

/** One target: its transport, its breaker, and its calls in flight. @internal */
export class Server {
  readonly target: string;
  readonly #breaker: Breaker | undefined;
  readonly transport: Transport;
  takesBatches: boolean | undefined;
  /** Messages. */
  inFlight = 0;
  #requests = 0;
  #requestsAlone = 0;
  #sent = 0;
  #failed = 0;

  constructor(target: string, transport: Transport, breaker: Breaker | undefined) {
    this.target = target;
    this.transport = transport;
    this.#breaker = breaker;
  }

  get admits(): boolean {
    return this.#breaker === undefined || this.#breaker.admits;
  }

  /** Its last calls did not fail. */
  get isProven(): boolean {
    return this.#breaker === undefined || this.#breaker.state === 'closed';
  }

  /** Whether it takes another message. @param isAlone  with a request that must not wait for others */
  hasRoom(isAlone: boolean): boolean {
    return (isAlone ? this.#requestsAlone : this.#requests) < MAX_REQUESTS;
  }

  begin(requests: number, isAlone: boolean): void {
    this.inFlight++;
    this.#sent++;
    this.#count(requests, isAlone);
    this.#breaker?.begin();
  }

  /** Checks its health, which is the trial of its breaker. */
  async check(): Promise<void> {
    this.#breaker?.begin();
    const isReady = await this.transport.isReady(HEALTH_TIMEOUT_MS);
    if (isReady) this.#breaker?.succeeded();
    else this.#breaker?.failed();
  }

  /** The requests of a message are no longer in flight. */
  free(requests: number, isAlone: boolean): void {
    this.inFlight--;
    this.#count(-requests, isAlone);
  }

  #count(requests: number, isAlone: boolean): void {
    if (isAlone) this.#requestsAlone += requests;
    else this.#requests += requests;
  }

  /** A message has ended; `isFailure`: with an outcome that shows that the server does not work. */
  end(isFailure: boolean): void {
    if (!isFailure) return this.#breaker?.succeeded();
    this.#failed++;
    this.takesBatches = undefined; // the server may return as another version
    this.#breaker?.failed();
  }

  /** All callers of a message gave up before their deadlines, or the server did not take it. */
  abandon(): void {
    this.#breaker?.abandoned();
  }

  get stats(): ServerStats {
    const { target, inFlight, takesBatches } = this;
    const breaker = this.#breaker?.state ?? 'closed';
    return { target, breaker, inFlight, sent: this.#sent, failed: this.#failed, takesBatches };
  }
}

/** Whether this outcome shows that the server does not work. @internal */
export const isFailure = (outcome: Outcome): boolean =>
  outcome instanceof WeirUnavailable && (outcome.kind === 'unavailable' || outcome.kind === 'timeout');

/** Whether the server works, but did not take this call. @internal */
export const isOverload = (outcome: Outcome): boolean =>
  outcome instanceof WeirUnavailable && outcome.kind === 'overloaded';
