import type { Breaker, BreakerState } from './breaker.ts';
import { WeirUnavailable } from './errors.ts';
import type { Outcome, Transport } from './transport/transport.ts';

const HEALTH_TIMEOUT_MS = 1_000;

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

/** One target: its transport, its breaker, and its calls in flight. */
export class Server {
  readonly target: string;
  readonly #breaker: Breaker | undefined;
  /** Undefined until it is loaded. */
  transport: Transport | undefined;
  takesBatches: boolean | undefined;
  inFlight = 0;
  #sent = 0;
  #failed = 0;

  constructor(target: string, breaker: Breaker | undefined) {
    this.target = target;
    this.#breaker = breaker;
  }

  get admits(): boolean {
    return this.#breaker === undefined || this.#breaker.admits;
  }

  /** Its last calls did not fail. */
  get isProven(): boolean {
    return this.#breaker === undefined || this.#breaker.state === 'closed';
  }

  begin(): void {
    this.inFlight++;
    this.#sent++;
    this.#breaker?.begin();
  }

  /** Checks its health, which is the trial of its breaker. */
  async check(): Promise<void> {
    this.#breaker?.begin();
    const isReady = await this.transport?.isReady(HEALTH_TIMEOUT_MS);
    if (isReady) this.#breaker?.succeeded();
    else this.#breaker?.failed();
  }

  /** A call has ended; `isFailure`: with an outcome that shows that the server does not work. */
  end(isFailure: boolean): void {
    this.inFlight--;
    if (!isFailure) return this.#breaker?.succeeded();
    this.#failed++;
    this.takesBatches = undefined; // the server may return as another version
    this.#breaker?.failed();
  }

  /** All callers of a call gave up before its deadline. */
  abandon(): void {
    this.inFlight--;
    this.#breaker?.abandoned();
  }

  get stats(): ServerStats {
    const { target, inFlight, takesBatches } = this;
    const breaker = this.#breaker?.state ?? 'closed';
    return { target, breaker, inFlight, sent: this.#sent, failed: this.#failed, takesBatches };
  }
}

/** Whether this outcome shows that the server does not work. */
export const isFailure = (outcome: Outcome): boolean =>
  outcome instanceof WeirUnavailable && (outcome.kind === 'unavailable' || outcome.kind === 'timeout');
