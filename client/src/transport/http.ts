import { Agent, type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps, Agent as TlsAgent } from 'node:https';
import { decisionOf } from '../decision.ts';
import { type FailureKind, failureOf, WeirUnavailable } from '../errors.ts';
import type { TlsOptions } from '../options.ts';
import { replyFromJson, requestToJson } from '../wire/json.ts';
import { isRefund } from '../wire/messages.ts';
import type { Outcome, Transport } from './transport.ts';

/** The most connections to one server, in total and idle. */
const MAX_SOCKETS = 256;
const MAX_IDLE_SOCKETS = 32;
/** How many times a request is sent again if the server was closing its idle connection. */
const MAX_IDLE_RETRIES = 2;
/** The longest answer that is accepted. */
const MAX_ANSWER_CHARS = 1_000_000;

/** Opens connections to `/json` of a server. @param origin  `http://host:port`, optionally with a path */
export function createHttpTransport(origin: string, tls: TlsOptions | undefined): Transport {
  const base = origin.replace(/\/+$/, '');
  const pool = { keepAlive: true, maxSockets: MAX_SOCKETS, maxFreeSockets: MAX_IDLE_SOCKETS };
  const isSecure = base.startsWith('https:');
  const { ca, cert, key, serverName } = tls ?? {};
  const agent = isSecure
    ? new TlsAgent({ ...pool, ...defined({ ca, cert, key, servername: serverName }) })
    : new Agent(pool);
  const open = isSecure ? requestHttps : requestHttp;
  const post = { method: 'POST', agent, headers: { 'content-type': 'application/json', 'x-weir-detail': '1' } };
  return {
    send(request, { headers }, done) {
      const options = headers ? { ...post, headers: { ...post.headers, ...headers } } : post;
      const body = requestToJson(request);
      let isCancelled = false;
      let outgoing: ClientRequest | undefined;
      const attempt = (attemptsLeft: number): void => {
        const sent = open(`${base}/json`, options);
        outgoing = sent;
        read(sent, (outcome) => {
          if (isCancelled) return;
          if (!(outcome instanceof WeirUnavailable)) return done(outcomeOf(outcome));
          if (attemptsLeft > 0 && wasIdle(sent, outcome)) return attempt(attemptsLeft - 1);
          done(outcome);
        });
        sent.end(body);
      };
      try {
        attempt(isRefund(request) ? 0 : MAX_IDLE_RETRIES);
      } catch (cause) {
        queueMicrotask(() => done(new WeirUnavailable('unavailable', String(cause), { cause }))); // invalid certificate
      }
      return () => {
        isCancelled = true;
        outgoing?.destroy();
      };
    },
    sendAll: undefined,
    call: undefined,
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
    close: () => agent.destroy(),
  };
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

/** Kinds of failure by HTTP status, if there is no gRPC status. In envoyproxy/ratelimit, every error is 400. */
const kinds: Readonly<Record<number, FailureKind>> = { 400: 'unavailable', 413: 'invalid' };

function outcomeOf({ status, code, reason, body }: Answer): Outcome {
  if (status >= 400 && status !== 429) {
    const message = `HTTP ${status}: ${reason ?? body.slice(0, 100)}`;
    if (code !== undefined) return failureOf(Number(code), message);
    return new WeirUnavailable(kinds[status] ?? (status >= 500 ? 'unavailable' : 'rejected'), message);
  }
  try {
    return decisionOf(replyFromJson(body));
  } catch (cause) {
    return new WeirUnavailable('unavailable', `HTTP ${status} with an answer that is no RateLimitResponse`, { cause });
  }
}

const defined = <T extends object>(fields: T): Partial<T> =>
  // The same fields without those that are undefined.
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
