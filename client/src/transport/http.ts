import { Agent, type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps, Agent as TlsAgent } from 'node:https';
import { createSecureContext } from 'node:tls';
import { toDecision } from '../decision.ts';
import { type FailureKind, toFailure, WeirUnavailable } from '../errors.ts';
import type { TlsOptions } from '../options.ts';
import { holdFromJson, holdToJson, replyFromJson, requestToJson } from '../wire/json.ts';
import { isRefund } from '../wire/messages.ts';
import { type Cancel, promiseCall, type Transport } from './transport.ts';

/** Maximum connections of a pool, in total and idle. */
const MAX_SOCKETS = 256;
const MAX_IDLE_SOCKETS = 32;
/** How many times a request is sent again if the server was closing its idle connection. */
const MAX_IDLE_RETRIES = 2;
/** Maximum length of an answer. */
const MAX_ANSWER_CHARS = 1_000_000;

interface Post {
  readonly body: string;
  readonly agent: Agent;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Time limit of the call. Default: none; the caller cancels it. */
  readonly timeoutMs?: number;
  /** Default: MAX_IDLE_RETRIES. */
  readonly maxRetries?: number;
}

/** Opens connections to the HTTP port of a server. @param origin  `http://host:port`, optionally with a path */
export function createHttpTransport(origin: string, tls: TlsOptions | undefined): Transport {
  const base = origin.replace(/\/+$/, '');
  const isSecure = base.startsWith('https:');
  const open = isSecure ? requestHttps : requestHttp;
  const agent = openPool(isSecure, tls);
  const waiting = openPool(isSecure, tls); // else calls that wait for slots could leave no connection to release them
  const post = createPost(base, open);
  return {
    send(request, { headers }, done) {
      const maxRetries = isRefund(request) ? 0 : MAX_IDLE_RETRIES;
      return post('/json', { body: requestToJson(request), agent, headers, maxRetries }, (answer) =>
        done(decoded(answer, (body) => toDecision(replyFromJson(body)))),
      );
    },
    sendAll: undefined,
    callHolds: (method, message, { timeoutMs, signal }) =>
      promiseCall((done) => {
        const { maxDelayMs = 0 } = message;
        const pool = maxDelayMs > 0 ? waiting : agent;
        return post(`/holds/${method.toLowerCase()}`, { body: holdToJson(message), agent: pool, timeoutMs }, (answer) =>
          done(decoded(answer, holdFromJson[method])),
        );
      }, signal),
    isReady: (timeoutMs) =>
      new Promise<boolean>((resolve) => {
        const outgoing = open(`${base}/healthcheck`, { agent });
        const timer = setTimeout(() => outgoing.destroy(), timeoutMs);
        read(outgoing, (outcome) => {
          clearTimeout(timer);
          resolve(!(outcome instanceof WeirUnavailable) && outcome.status === 200);
        });
        outgoing.end();
      }).catch(() => false),
    close: () => {
      agent.destroy();
      waiting.destroy();
    },
  };
}

/** @param open  of `http` or `https` */
function createPost(base: string, open: typeof requestHttp) {
  return (path: string, options: Post, done: (answer: Answer | WeirUnavailable) => void): Cancel => {
    const { agent, timeoutMs, headers, maxRetries = MAX_IDLE_RETRIES } = options;
    const sending = { method: 'POST', agent, headers: headers ? { ...HEADERS, ...headers } : HEADERS };
    let isDone = false;
    let outgoing: ClientRequest | undefined;
    const end = (): boolean => {
      if (isDone) return false;
      isDone = true;
      clearTimeout(timer);
      return true;
    };
    const finish = (answer: Answer | WeirUnavailable): void => {
      if (end()) done(answer);
    };
    const expire = (): void => {
      finish(new WeirUnavailable('timeout', `no answer within ${timeoutMs} ms`));
      outgoing?.destroy();
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs);
    const attempt = (retriesLeft: number): void => {
      const sent = open(`${base}${path}`, sending);
      outgoing = sent;
      read(sent, (answer) => {
        const isLost = !isDone && answer instanceof WeirUnavailable && wasIdle(sent, answer);
        if (isLost && retriesLeft > 0) attempt(retriesLeft - 1);
        else finish(answer);
      });
      sent.end(options.body);
    };
    try {
      attempt(maxRetries);
    } catch (cause) {
      queueMicrotask(() => finish(new WeirUnavailable('unavailable', String(cause), { cause }))); // an invalid trace header
    }
    return () => {
      if (end()) outgoing?.destroy();
    };
  };
}

const HEADERS = { 'content-type': 'application/json', 'x-weir-detail': '1' };

/** @throws Error  a certificate cannot be used */
function openPool(isSecure: boolean, { ca, cert, key, serverName }: TlsOptions = {}): Agent {
  const pool = { keepAlive: true, maxSockets: MAX_SOCKETS, maxFreeSockets: MAX_IDLE_SOCKETS };
  if (!isSecure) return new Agent(pool);
  const certificates = defined({ ca, cert, key });
  createSecureContext(certificates);
  return new TlsAgent({ ...pool, ...certificates, ...defined({ servername: serverName }) });
}

interface Answer {
  readonly status: number;
  /** The gRPC status of an error. */
  readonly code: string | undefined;
  readonly reason: string | undefined;
  readonly body: string;
}

/** Calls back once, with the whole answer or the reason for its absence. */
function read(outgoing: ClientRequest, done: (outcome: Answer | WeirUnavailable) => void): void {
  let isDone = false;
  const finish = (outcome: Answer | WeirUnavailable) => {
    if (isDone) return;
    isDone = true;
    done(outcome);
  };
  const fail = (cause: Error) => finish(new WeirUnavailable('unavailable', cause.message, { cause }));
  outgoing.on('error', fail);
  outgoing.on('response', (incoming: IncomingMessage) => {
    let body = '';
    incoming.setEncoding('utf8');
    incoming.on('data', (text: string) => {
      body += text;
      if (body.length > MAX_ANSWER_CHARS) outgoing.destroy(new Error('the answer is too long'));
    });
    incoming.on('error', fail);
    incoming.on('end', () => {
      const { 'x-weir-reason': reason, 'grpc-status': code } = incoming.headers;
      finish({ status: incoming.statusCode ?? 0, code: code?.toString(), reason: reason?.toString(), body });
    });
  });
  outgoing.on('close', () => fail(new Error('the connection was closed')));
}

/** Whether the server closed an idle connection before it read the request. */
const wasIdle = (outgoing: ClientRequest, { cause }: WeirUnavailable): boolean =>
  // A request fails with a system error.
  outgoing.reusedSocket && ['ECONNRESET', 'EPIPE'].includes((cause as NodeJS.ErrnoException).code ?? '');

/**
 * Kinds of failure by HTTP status, if there is no gRPC status. In envoyproxy/ratelimit, every error is 400, and unknown
 * paths are 404.
 */
const kinds: Readonly<Record<number, FailureKind>> = { 400: 'unavailable', 404: 'unimplemented', 413: 'invalid' };

/** @param decode  throws if the body is not an answer */
function decoded<T>(answer: Answer | WeirUnavailable, decode: (body: string) => T): T | WeirUnavailable {
  if (answer instanceof WeirUnavailable) return answer;
  const { status, code, reason, body } = answer;
  if (status >= 400 && status !== 429) {
    const message = `HTTP ${status}: ${reason ?? body.slice(0, 100)}`;
    if (code !== undefined) return toFailure(Number(code), message);
    return new WeirUnavailable(kinds[status] ?? (status >= 500 ? 'unavailable' : 'rejected'), message);
  }
  try {
    return decode(body);
  } catch (cause) {
    return new WeirUnavailable('unavailable', `HTTP ${status} with an answer of another kind`, { cause });
  }
}

const defined = <T extends object>(fields: T): Partial<T> =>
  // The same fields without those that are undefined.
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
