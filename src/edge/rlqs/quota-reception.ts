import { status } from '../../h2/grpc/grpc-status.ts';
import { type BucketAction, ReportTooLong, readUsageReport } from './messages.ts';
import { type CurrentReport, type ProxyNames, type QuotaContext, QuotaStream } from './quota-stream.ts';

/** A proxy's stream, as seen by the transport. */
export interface QuotaTransport {
  /** The value of PROXY_HEADER; undefined: the proxy has no name. */
  readonly name: string | undefined;
  readonly write: (actions: readonly BucketAction[]) => void;
  readonly charge: (bytes: number) => void;
  readonly fail: (code: status, details: string) => void;
  /** Ends the stream with OK. */
  readonly end: () => void;
}

/** Receives the messages of a proxy. */
export interface QuotaReceiver {
  /** A message RateLimitQuotaUsageReports; owned by the receiver. */
  report(bytes: Buffer): void;
  close(): void;
}

/** Ignores everything: the stream has failed. */
export const NO_RECEIVER: QuotaReceiver = { report: () => {}, close: () => {} };

/** The most reports of a stream that wait while one is handled. With more, the stream fails with RESOURCE_EXHAUSTED. */
const MAX_WAITING_REPORTS = 4;
/** A report may have this many more fields than a proxy may have buckets: the excess is handled as unknown buckets. */
const FURTHER_USAGES = 1_024;
const MAX_DOMAIN_LENGTH = 1_024;

interface WaitingReport {
  readonly bytes: Buffer;
  /** On the monotonic clock. */
  readonly arrivedMs: number;
}

/** The reports of one proxy, handled in sequence. */
export class QuotaReception implements QuotaReceiver {
  readonly #context: QuotaContext;
  readonly #transport: QuotaTransport;
  readonly #names: ProxyNames;
  readonly #onOver: () => void;
  #stream: QuotaStream | undefined;
  #isOver = false;
  /** The report that is handled, and behind it the ones that wait. */
  #reports: WaitingReport[] = [];
  readonly #current: CurrentReport = { report: undefined };

  /** @param onOver  called once, when nothing more is received */
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
    if (this.#isOver) return;
    if (this.#reports.length > MAX_WAITING_REPORTS)
      return this.#fail(status.RESOURCE_EXHAUSTED, 'reports arrive faster than they are handled');
    this.#transport.charge(bytes.length);
    const isFirst = this.#reports.push({ bytes, arrivedMs: this.#context.monotonicMs() }) === 1;
    if (isFirst) void this.#handleAll();
  }

  /** Drops all reports at once, even the one that is handled: the stream is no longer charged for them. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reports = [];
    this.#current.report = undefined;
    this.#context.turns.leave(this);
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

  /** While it waits, only the fields that `close` clears refer to a report. */
  async #handleAll(): Promise<void> {
    do {
      await this.#turn();
      if (this.#isOver) return;
      const octets = this.#reports[0]?.bytes.length ?? 0;
      try {
        await this.#handleFirst();
      } catch (error) {
        this.#fail(...failureOf(error));
      }
      if (this.#isOver) return;
      this.#current.report = undefined;
      this.#transport.charge(-octets);
      this.#reports.shift();
    } while (this.#reports.length > 0);
  }

  async #handleFirst(): Promise<void> {
    const arrivedMs = this.#reports[0]?.arrivedMs ?? 0;
    const stream = this.#readFirst();
    if (!stream) return;
    const byteLength = this.#current.report?.positions.byteLength ?? 0;
    this.#transport.charge(byteLength);
    try {
      await stream.handle(this.#current, arrivedMs);
    } finally {
      if (!this.#isOver) this.#transport.charge(-byteLength);
    }
  }

  /** @returns undefined if this ended the stream */
  #readFirst(): QuotaStream | undefined {
    const [first] = this.#reports;
    if (!first) return undefined;
    const report = readUsageReport(first.bytes, this.#context.maxBuckets + FURTHER_USAGES);
    if (!this.#stream && !isDomain(report.domain)) {
      this.#fail(
        status.INVALID_ARGUMENT,
        `the first report must name a domain of 1 to ${MAX_DOMAIN_LENGTH} characters`,
      );
      return undefined;
    }
    this.#current.report = report;
    const { write, charge } = this.#transport;
    const call = { ...this.#names, write, charge, isOver: () => this.#isOver, turn: () => this.#turn() };
    this.#stream ??= new QuotaStream(this.#context, call, report.domain);
    return this.#stream;
  }

  #turn(): Promise<void> {
    return this.#isOver ? Promise.resolve() : this.#context.turns.next(this);
  }
}

const isDomain = (domain: string): boolean => domain.length > 0 && domain.length <= MAX_DOMAIN_LENGTH;

function failureOf(error: unknown): [status, string] {
  if (error instanceof ReportTooLong) return [status.RESOURCE_EXHAUSTED, error.message];
  if (error instanceof RangeError) return [status.INVALID_ARGUMENT, `the report cannot be decoded: ${error.message}`];
  return [status.INTERNAL, 'internal error'];
}
