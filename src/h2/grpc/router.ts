import type { MethodDefinition, Server, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { RequestHead } from '../http2/request-head.ts';
import type { Receiver, Stream } from '../http2/stream.ts';
import { echoed, type Failure, failureHead, plainBodies, plainHeads, refusalHead } from './answers.ts';
import { type CallHead, type NotGrpc, readCallHead } from './call-head.ts';
import { isEncoding } from './compression.ts';
import { status } from './grpc-status.ts';
import { LoadingCall } from './loading-call.ts';
import { sideLimits } from './method.ts';
import { HostedCall, type HostedLimits } from './method-call.ts';
import { UnaryCall, type UnaryMethod } from './unary-call.ts';

/** A grpc-js server, or another host for handlers written for grpc-js. */
export type ServiceHost = Pick<Server, 'addService'>;

/** Creates the receiver of a call; undefined: the call has been answered. */
type Open = (stream: Stream, head: CallHead) => Receiver | undefined;

const TOO_MANY_SIDE_STREAMS = failureHead({
  code: status.RESOURCE_EXHAUSTED,
  details: `a connection may have at most ${sideLimits.maxStreams} open streams of services other than decisions`,
});

/** Maximum number of calls that wait for their service to be loaded. Loading happens once and takes about 0.1 s. */
const MAX_WAITING_FOR_LOAD = 256;

/** Routes requests to methods by path. */
export class Router {
  readonly #methods = new Map<string, Open>();
  readonly #maxRequestBytes: number;
  readonly #detailHeader: string | undefined;
  /** Answers to refused heads: a connection caches a few heads, which may recur thousands of times. */
  readonly #failures = new WeakMap<CallHead, Buffer>();
  /** For services whose handlers were written for grpc-js. */
  readonly host: ServiceHost = this.hostWith(sideLimits);

  /**
   * @param maxRequestBytes  limit for methods added by `addUnary`; larger requests are RESOURCE_EXHAUSTED
   * @param detailHeader     the header with which a caller asks for details
   */
  constructor(maxRequestBytes: number, detailHeader?: string) {
    this.#maxRequestBytes = maxRequestBytes;
    this.#detailHeader = detailHeader;
  }

  /** Like `host`, with other limits. */
  hostWith(limits: HostedLimits): ServiceHost {
    return { addService: (definition, handlers) => this.addHosted(definition, handlers, limits) };
  }

  /** Adds a unary method on the hot path. */
  addUnary<Q>(path: string, method: Omit<UnaryMethod<Q>, 'maxRequestBytes'>): void {
    const bounded = { ...method, maxRequestBytes: this.#maxRequestBytes };
    this.#methods.set(path, (stream, head) => {
      const refusal = method.overload.refusal();
      return refusal ? refusedCall(stream, refusal) : new UnaryCall(bounded, stream, head);
    });
  }

  /**
   * Adds methods whose service is loaded when the first of them is called.
   *
   * @param load  adds the service to `host`
   */
  addOnDemand(paths: readonly string[], load: () => Promise<void>): void {
    let loaded: Promise<void> | undefined;
    let waiting = 0;
    const start = (): Promise<void> => {
      const loading = load();
      loading.catch(() => {
        loaded = undefined; // the next call tries again
        waiting = 0;
      });
      return loading;
    };
    for (const path of paths)
      this.#methods.set(path, (stream, head) => {
        if (waiting === MAX_WAITING_FOR_LOAD) return fail(stream, status.UNAVAILABLE, 'the service is being loaded');
        waiting++;
        loaded ??= start();
        const open = loaded.then(() => () => this.#methods.get(path)?.(stream, head));
        return new LoadingCall(stream, open);
      });
  }

  /** Adds a service whose handlers were written for grpc-js. */
  addHosted(definition: ServiceDefinition, handlers: UntypedServiceImplementation, limits: HostedLimits): void {
    for (const [name, method] of Object.entries(definition) as [string, MethodDefinition<unknown, unknown>][]) {
      // by its type
      const handler = handlers[name] ?? handlers[method.originalName ?? ''];
      if (!handler) continue;
      const hosted = { definition: method, handler, limits };
      this.#methods.set(method.path, (stream, head) => {
        const refusal = limits.turns?.overload.refusal();
        if (refusal) return refusedCall(stream, refusal);
        if (stream.peer.sideStreams < sideLimits.maxStreams) return new HostedCall(hosted, stream, head);
        stream.headOnly(TOO_MANY_SIDE_STREAMS);
        return undefined;
      });
    }
  }

  /** @returns undefined if the request has been answered */
  open(stream: Stream, requestHead: RequestHead): Receiver | undefined {
    const head = readCallHead(requestHead, this.#detailHeader);
    if (typeof head === 'number') return new Refusal(() => answerPlainly(stream, head));
    const open = this.#methods.get(head.path);
    if (open && !Number.isNaN(head.timeoutMs) && isEncoding(head.encoding)) return open(stream, head);
    let answer = this.#failures.get(head);
    if (!answer) {
      answer = failureHead(open ? problemOf(head) : unknownMethod(head));
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

/** Why a call of a known method is refused. */
const problemOf = ({ timeoutMs, encoding }: CallHead): Failure =>
  Number.isNaN(timeoutMs)
    ? { code: status.INTERNAL, details: 'grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n' }
    : { code: status.UNIMPLEMENTED, details: `grpc-encoding ${echoed(encoding)} is not supported` };

function fail(stream: Stream, code: status, details: string): undefined {
  stream.headOnly(failureHead({ code, details }));
}

/** Drains a request before it is answered: HTTP clients send everything before they read. */
class Refusal implements Receiver {
  readonly #answer: () => void;

  constructor(answer: () => void) {
    this.#answer = answer;
  }

  data(): void {}

  end(): void {
    this.#answer();
  }

  cancelled(): void {}
}

const refusedCall = (stream: Stream, refusal: Failure): Receiver =>
  new Refusal(() => stream.headOnly(refusalHead(refusal)));

function answerPlainly(stream: Stream, problem: NotGrpc | 431): void {
  stream.head(plainHeads[problem]);
  stream.data(plainBodies[problem]);
  stream.end();
}
