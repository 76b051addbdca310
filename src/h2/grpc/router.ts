import { JoinedParts } from '../bounds/spare-buffers.ts';
import { ErrorCode } from '../http2/errors.ts';
import type { RequestHead } from '../http2/request-head.ts';
import type { Receiver, Stream } from '../http2/stream.ts';
import { echoed, type Failure, failureHead, plainAnswers, refusalHead } from './answers.ts';
import { type CallHead, type NotGrpc, readCallHead } from './call-head.ts';
import { isEncoding } from './compression.ts';
import { status } from './grpc-status.ts';
import type { Method } from './method.ts';
import { MethodCall } from './method-call.ts';
import { UnaryCall, type UnaryMethod } from './unary-call.ts';

/** Creates the receiver of a call, or returns undefined if the call has been answered. */
type Open = (stream: Stream, head: CallHead) => Receiver | undefined;

/** Maximum open calls of side methods per connection; further ones fail with RESOURCE_EXHAUSTED. */
export const MAX_SIDE_STREAMS = 100;

const TOO_MANY_SIDE_STREAMS = failureHead({
  code: status.RESOURCE_EXHAUSTED,
  details: `a connection may have at most ${MAX_SIDE_STREAMS} open streams of side services`,
});

/** Maximum number of calls that wait for their service to be loaded. Loading happens once and takes about 0.1 s. */
const MAX_WAITING_FOR_LOAD = 256;

const BEING_LOADED = failureHead({ code: status.UNAVAILABLE, details: 'the service is being loaded' });

/** Routes requests to methods by path: those of `addUnary` are on the hot path; others have lower limits. */
export class Router {
  readonly #methods = new Map<string, Open>();
  readonly #detailHeader: string | undefined;
  /** Encoded answers by refused head; a connection caches heads, which may recur thousands of times. */
  readonly #failures = new WeakMap<CallHead, Buffer>();

  /** @param detailHeader  header with which a caller requests details, if any */
  constructor(detailHeader?: string) {
    this.#detailHeader = detailHeader;
  }

  addUnary<Q>(path: string, method: UnaryMethod<Q>): void {
    this.#methods.set(path, (stream, head) => {
      const refusal = method.overload.refusal();
      return refusal ? refusedCall(stream, refusal) : new UnaryCall(method, stream, head);
    });
  }

  /** Adds side methods that are loaded when the first of them is called. */
  addOnDemand(paths: readonly string[], load: () => Promise<readonly Method[]>): void {
    let loaded: Promise<void> | undefined;
    let waiting = 0;
    const start = (): Promise<void> => {
      const loading = load().then((methods) => {
        for (const method of methods) this.add(method);
      });
      loading.catch(() => {
        loaded = undefined; // the next call tries again
        waiting = 0;
      });
      return loading;
    };
    for (const path of paths)
      this.#methods.set(path, (stream, head) => {
        if (waiting === MAX_WAITING_FOR_LOAD) return void stream.headOnly(BEING_LOADED);
        waiting++;
        loaded ??= start();
        const open = loaded.then(() => () => this.#methods.get(path)?.(stream, head));
        return new LoadingCall(stream, open);
      });
  }

  add<Q, R>(method: Method<Q, R>): void {
    const overload = method.kind === 'bidi stream' ? undefined : method.turns?.overload;
    this.#methods.set(method.path, (stream, head) => {
      const refusal = overload?.refusal();
      if (refusal) return refusedCall(stream, refusal);
      if (stream.peer.sideStreams < MAX_SIDE_STREAMS) return new MethodCall(method as Method, stream, head); // `add` is given a method and messages of the same types
      stream.headOnly(TOO_MANY_SIDE_STREAMS);
      return undefined;
    });
  }

  /** @returns undefined if the request has been answered */
  open(stream: Stream, requestHead: RequestHead): Receiver | undefined {
    const head = readCallHead(requestHead, this.#detailHeader);
    if (typeof head === 'number') return drained(() => answerPlainly(stream, head));
    const open = this.#methods.get(head.path);
    if (open && !Number.isNaN(head.timeoutMs) && isEncoding(head.encoding)) return open(stream, head);
    let answer = this.#failures.get(head);
    if (!answer) {
      answer = failureHead(open ? callFailure(head) : unknownMethod(head));
      this.#failures.set(head, answer);
    }
    stream.headOnly(answer);
    return undefined;
  }

  tooLarge(stream: Stream): void {
    answerPlainly(stream, 431);
  }
}

const unknownMethod = ({ path }: CallHead): Failure => ({
  code: status.UNIMPLEMENTED,
  details: `unknown method ${echoed(path)}`,
});

/** The reason to refuse a call of a known method. */
const callFailure = ({ timeoutMs, encoding }: CallHead): Failure =>
  Number.isNaN(timeoutMs)
    ? { code: status.INTERNAL, details: 'grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n' }
    : { code: status.UNIMPLEMENTED, details: `grpc-encoding ${echoed(encoding)} is not supported` };

const ignore = (): void => {};

/** Drains a request before answering it, since HTTP clients send everything before they read. */
const drained = (answer: () => void): Receiver => ({ data: ignore, end: answer, cancelled: ignore });

const refusedCall = (stream: Stream, refusal: Failure): Receiver =>
  drained(() => stream.headOnly(refusalHead(refusal)));

function answerPlainly(stream: Stream, problem: NotGrpc | 431): void {
  const { head, body } = plainAnswers[problem];
  stream.head(head);
  stream.data(body);
  stream.end();
}

/** Maximum octets of a request buffered before its service is loaded; more fail with RESOURCE_EXHAUSTED. */
const MAX_BUFFERED_BYTES = 65_536;

const TOO_MUCH_BEFORE_LOAD = failureHead({
  code: status.RESOURCE_EXHAUSTED,
  details: `more than ${MAX_BUFFERED_BYTES} bytes arrived before the service was loaded`,
});

/** A call whose service is being loaded: buffers up to `MAX_BUFFERED_BYTES` of its request, then passes them on. */
class LoadingCall implements Receiver {
  readonly #stream: Stream;
  readonly #parts = new JoinedParts();
  #hasEnded = false;

  /** @param loaded  opens the receiver of the call; undefined if the call has been answered */
  constructor(stream: Stream, loaded: Promise<() => Receiver | undefined>) {
    this.#stream = stream;
    loaded.then((open) => this.#passOn(open)).catch(() => stream.reset(ErrorCode.INTERNAL_ERROR));
  }

  data(bytes: Buffer, from: number, to: number): void {
    const parts = this.#parts;
    if (parts.length + to - from > MAX_BUFFERED_BYTES) {
      parts.release();
      return this.#stream.headOnly(TOO_MUCH_BEFORE_LOAD);
    }
    const heldBefore = parts.bytes.length;
    parts.add(bytes, from, to, MAX_BUFFERED_BYTES);
    this.#stream.charge(parts.bytes.length - heldBefore);
  }

  end(bytes: Buffer, from: number, to: number): void {
    this.#hasEnded = true;
    this.data(bytes, from, to);
  }

  cancelled(): void {
    this.#parts.release();
  }

  #passOn(open: () => Receiver | undefined): void {
    const stream = this.#stream;
    if (stream.isOver) return;
    const receiver = open();
    stream.receiver = receiver;
    const { bytes, length } = this.#parts;
    stream.charge(-bytes.length);
    if (this.#hasEnded) receiver?.end(bytes, 0, length);
    else if (length > 0) receiver?.data(bytes, 0, length);
    this.#parts.release();
  }
}
