import { ownCopy } from '../bounds/own-copy.ts';
import { ErrorCode } from '../http2/errors.ts';
import type { Receiver, Stream } from '../http2/stream.ts';
import { failureHead } from './answers.ts';
import { status } from './grpc-status.ts';

/** Octets of a request that are buffered before its service is loaded. More: RESOURCE_EXHAUSTED. */
const MAX_BUFFERED_BYTES = 65_536;

const TOO_MUCH = failureHead({
  code: status.RESOURCE_EXHAUSTED,
  details: `more than ${MAX_BUFFERED_BYTES} bytes came before the service was loaded`,
});

/** Memory of a buffered part, besides its octets. */
const PART_BYTES = 256;

/**
 * A call whose service is being loaded. Buffers up to `MAX_BUFFERED_BYTES` octets of its request, then passes them to
 * the service.
 */
export class LoadingCall implements Receiver {
  readonly #stream: Stream;
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #chargedBytes = 0;
  #hasEnded = false;

  /** @param loaded  opens the receiver of the call; undefined if the call has been answered */
  constructor(stream: Stream, loaded: Promise<() => Receiver | undefined>) {
    this.#stream = stream;
    loaded.then((open) => this.#passOn(open)).catch(() => stream.reset(ErrorCode.INTERNAL_ERROR));
  }

  data(bytes: Buffer, from: number, to: number): void {
    this.#keptBytes += to - from;
    if (this.#keptBytes > MAX_BUFFERED_BYTES) {
      this.#kept = [];
      return this.#stream.headOnly(TOO_MUCH);
    }
    this.#kept.push(ownCopy(bytes, from, to));
    this.#chargedBytes += to - from + PART_BYTES;
    this.#stream.charge(to - from + PART_BYTES);
  }

  end(bytes: Buffer, from: number, to: number): void {
    this.#hasEnded = true;
    if (from < to) this.data(bytes, from, to);
  }

  cancelled(): void {
    this.#kept = [];
  }

  #passOn(open: () => Receiver | undefined): void {
    const stream = this.#stream;
    if (stream.isOver) return;
    const receiver = open();
    stream.receiver = receiver;
    stream.charge(-this.#chargedBytes);
    const kept = this.#kept;
    this.#kept = [];
    for (const bytes of kept) receiver?.data(bytes, 0, bytes.length);
    if (this.#hasEnded) receiver?.end(Buffer.alloc(0), 0, 0);
  }
}
