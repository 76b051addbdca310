import type { RequestHead } from '../h2/request-head.ts';
import { parseTimeout } from './timeout.ts';

/** What gRPC reads from a request's head. */
export interface CallHead {
  /** `/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` */
  readonly path: string;
  /** Infinity: the caller waits for ever. */
  readonly timeoutMs: number;
  /** How compressed messages are compressed: `identity` where nothing is said. */
  readonly encoding: string;
  /** A header by its name in lower case: several of that name as one, with commas between. */
  header(name: string): string | undefined;
}

/** Or the HTTP status of what is no gRPC call. */
export type NoCall = 405 | 415;

const known = new WeakMap<RequestHead, CallHead | NoCall>();

/** @see https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
export function readCallHead(head: RequestHead): CallHead | NoCall {
  const before = known.get(head);
  if (before !== undefined) return before;
  const read = interpret(head);
  known.set(head, read);
  return read;
}

function interpret({ method, path, fields }: RequestHead): CallHead | NoCall {
  const header = (wanted: string): string | undefined => {
    const values = fields.filter(({ name }) => name === wanted).map(({ value }) => value);
    return values.length > 0 ? values.join(', ') : undefined;
  };
  if (!/^application\/grpc($|[+;])/.test(header('content-type') ?? '')) return 415;
  if (method !== 'POST') return 405;
  const timeoutMs = parseTimeout(header('grpc-timeout'));
  return { path, timeoutMs, encoding: header('grpc-encoding') ?? 'identity', header };
}
