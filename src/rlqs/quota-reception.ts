import { status } from '../grpc-status.ts';
import { type BucketAction, ReportTooLong, readUsageReport } from './messages.ts';
import { type ProxyNames, type QuotaContext, QuotaStream } from './quota-stream.ts';

/** A stream of one proxy, as the transport has it. */
export interface QuotaTransport {
  /** The value of PROXY_HEADER; undefined: the proxy has no name. */
  readonly name: string | undefined;
  readonly write: (actions: readonly BucketAction[]) => void;
  readonly charge: (bytes: number) => void;
  readonly fail: (code: status, details: string) => void;
  /** Ends the stream with OK. */
  readonly end: () => void;
}

/** Takes what a proxy sends. */
export interface QuotaReceiver {
  /** A message RateLimitQuotaUsageReports; owned by the receiver. */
  report(bytes: Buffer): void;
  close(): void;
}

/** What takes nothing: the stream has failed. */
export const NO_RECEIVER: QuotaReceiver = { report: () => {}, close: () => {} };

/** Reports of a stream that wait while one is handled. More: RESOURCE_EXHAUSTED. */
const MAX_WAITING_REPORTS = 4;
/** A report may have so many more fields than a proxy may have buckets: those are handled as unknown ones. */
const FURTHER_USAGES = 1_024;
const MAX_DOMAIN_LENGTH = 1_024;

/** The reports of one proxy, handled one after the other. */
export class QuotaReception implements QuotaReceiver {
  readonly #context: QuotaContext;
  readonly #transport: QuotaTransport;
  readonly #names: ProxyNames;
  readonly #onOver: () => void;
  #stream: QuotaStream | undefined;
  #isOver = false;
  #waiting = 0;
  #handled: Promise<void> = Promise.resolve();

  /** @param onOver  called once, when no more is received */
  constructor(context: QuotaContext, transport: QuotaTransport, names: ProxyNames, onOver: () => void) {
    this.#context = context;
    this.#transport = transport;
    this.#names = names;
    this.#onOver = onOver;
  }

  /** Undefined before the first report. */
  get stream(): QuotaStream | undefined {
    return this.#stream;
  }

  report(bytes: Buffer): void {
    if (this.#waiting > MAX_WAITING_REPORTS)
      return this.#fail(status.RESOURCE_EXHAUSTED, 'reports arrive faster than they are handled');
    const arrivedMs = this.#context.monotonicMs();
    this.#waiting++;
    this.#transport.charge(bytes.length);
    this.#handled = this.#handled
      .then(() => this.#handle(bytes, arrivedMs))
      .catch((error: unknown) => this.#fail(...failureOf(error)))
      .then(() => {
        this.#waiting--;
        if (!this.#isOver) this.#transport.charge(-bytes.length);
      });
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onOver();
    this.#stream?.close();
  }

  /** Ends the stream with OK. */
  end(): void {
    this.close();
    this.#transport.end();
  }

  #fail(code: status, details: string): void {
    if (this.#isOver) return;
    this.close();
    this.#transport.fail(code, details);
  }

  async #handle(bytes: Buffer, arrivedMs: number): Promise<void> {
    const { turns, maxBuckets } = this.#context;
    await turns.next(() => this.#isOver);
    if (this.#isOver) return;
    const report = readUsageReport(bytes, maxBuckets + FURTHER_USAGES);
    if (!this.#stream && !isDomain(report.domain))
      return this.#fail(
        status.INVALID_ARGUMENT,
        `the first report must name a domain of 1 to ${MAX_DOMAIN_LENGTH} characters`,
      );
    const { write, charge } = this.#transport;
    const call = { ...this.#names, write, charge, isOver: () => this.#isOver };
    this.#stream ??= new QuotaStream(this.#context, call, report.domain);
    const { byteLength } = report.positions;
    charge(byteLength);
    try {
      await this.#stream.handle(report, arrivedMs);
    } finally {
      if (!this.#isOver) charge(-byteLength);
    }
  }
}

const isDomain = (domain: string): boolean => domain.length > 0 && domain.length <= MAX_DOMAIN_LENGTH;

function failureOf(error: unknown): [status, string] {
  if (error instanceof ReportTooLong) return [status.RESOURCE_EXHAUSTED, error.message];
  if (error instanceof RangeError) return [status.INVALID_ARGUMENT, `the report cannot be decoded: ${error.message}`];
  return [status.INTERNAL, 'internal error'];
}
