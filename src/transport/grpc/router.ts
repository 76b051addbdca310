import type { MethodDefinition, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js';
import { status } from '../../grpc-status.ts';
import type { RequestHead } from '../h2/request-head.ts';
import type { Receiver, Stream } from '../h2/stream.ts';
import { sideLimits } from '../side-limits.ts';
import type { ServiceHost } from '../side-services.ts';
import { type Failure, failureHead, noCallHead, noCallText } from './answers.ts';
import { type CallHead, type NoCall, readCallHead } from './call-head.ts';
import { isEncoding } from './compression.ts';
import { HostedCall } from './hosted-call.ts';
import { LoadingCall } from './loading-call.ts';
import { UnaryCall, type UnaryMethod } from './unary-call.ts';

/** Makes what takes in a call of one method; undefined: the call has been answered. */
type Open = (stream: Stream, head: CallHead) => Receiver | undefined;

const TOO_MANY_SIDE_STREAMS = failureHead({
  code: status.RESOURCE_EXHAUSTED,
  details: `a connection may have ${sideLimits.maxStreams} streams of health and reflection at a time`,
});

/** Finds the method of each request by its path. */
export class Router {
  readonly #methods = new Map<string, Open>();
  readonly #maxRequestBytes: number;
  /** For services whose handlers were written for grpc-js. */
  readonly host: ServiceHost = { addService: (definition, handlers) => this.#addService(definition, handlers) };

  /** @param maxRequestBytes  of a message of a method added by `addUnary`; larger ones are RESOURCE_EXHAUSTED */
  constructor(maxRequestBytes: number) {
    this.#maxRequestBytes = maxRequestBytes;
  }

  /** Adds a method that is asked all the time. */
  addUnary<Q>(path: string, method: Omit<UnaryMethod<Q>, 'maxRequestBytes'>): void {
    const whole = { ...method, maxRequestBytes: this.#maxRequestBytes };
    this.#methods.set(path, (stream, head) => {
      const refusal = method.refusal();
      return refusal ? new RefusedCall(stream, refusal) : new UnaryCall(whole, stream, head);
    });
  }

  /**
   * Adds methods whose service is loaded when the first of them is called.
   *
   * @param load  adds the service to `host`
   */
  addOnDemand(paths: readonly string[], load: () => Promise<void>): void {
    let loaded: Promise<void> | undefined;
    for (const path of paths)
      this.#methods.set(path, (stream, head) => {
        loaded ??= load();
        const open = loaded.then(() => () => this.#methods.get(path)?.(stream, head));
        return new LoadingCall(stream, open);
      });
  }

  #addService(definition: ServiceDefinition, handlers: UntypedServiceImplementation): void {
    for (const [name, method] of Object.entries(definition) as [string, MethodDefinition<unknown, unknown>][]) {
      // it holds nothing else
      const handler = handlers[name] ?? handlers[method.originalName ?? ''];
      if (!handler) continue;
      const hosted = { definition: method, handler };
      this.#methods.set(method.path, (stream, head) => {
        if (stream.peer.sideStreams < sideLimits.maxStreams) return new HostedCall(hosted, stream, head);
        stream.headOnly(TOO_MANY_SIDE_STREAMS);
        return undefined;
      });
    }
  }

  /** @returns undefined  no method takes the request: it has been answered */
  open(stream: Stream, requestHead: RequestHead): Receiver | undefined {
    const head = readCallHead(requestHead);
    if (typeof head === 'number') return new Refusal(stream, head);
    const open = this.#methods.get(head.path);
    if (!open) return fail(stream, status.UNIMPLEMENTED, `there is no method ${head.path}`);
    if (Number.isNaN(head.timeoutMs))
      return fail(stream, status.INTERNAL, 'grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n');
    if (!isEncoding(head.encoding))
      return fail(stream, status.UNIMPLEMENTED, `grpc-encoding ${head.encoding} is none that can be read here`);
    return open(stream, head);
  }

  tooLarge(stream: Stream): void {
    answerPlainly(stream, 431);
  }
}

function fail(stream: Stream, code: status, details: string): undefined {
  stream.headOnly(failureHead({ code, details }));
}

/** Takes in what is no gRPC call, and tells its client so when it has sent all of it, as clients of plain HTTP expect. */
class Refusal implements Receiver {
  readonly #stream: Stream;
  readonly #problem: NoCall;

  constructor(stream: Stream, problem: NoCall) {
    this.#stream = stream;
    this.#problem = problem;
  }

  data(): void {}

  end(): void {
    answerPlainly(this.#stream, this.#problem);
  }

  cancelled(): void {}
}

/** Takes in a call that is not read, and says why when all of it has come. */
class RefusedCall implements Receiver {
  readonly #stream: Stream;
  readonly #refusal: Failure;

  constructor(stream: Stream, refusal: Failure) {
    this.#stream = stream;
    this.#refusal = refusal;
  }

  data(): void {}

  end(): void {
    this.#stream.headOnly(refusalHead(this.#refusal));
  }

  cancelled(): void {}
}

const refusalHeads = new WeakMap<Failure, Buffer>();

/** Refusing must be cheap: the block is made once. */
function refusalHead(refusal: Failure): Buffer {
  const known = refusalHeads.get(refusal);
  if (known) return known;
  const head = failureHead(refusal);
  refusalHeads.set(refusal, head);
  return head;
}

function answerPlainly(stream: Stream, problem: NoCall | 431): void {
  stream.head(noCallHead(problem));
  stream.data(Buffer.from(noCallText[problem]));
  stream.end();
}
