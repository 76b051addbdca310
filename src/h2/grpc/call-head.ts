import type { RequestHead } from '../http2/request-head.ts';

/** The parts of a request's head that gRPC uses. */
export interface CallHead {
  /** `/package.Service/Method` */
  readonly path: string;
  /** Time until the caller's deadline; Infinity without one. */
  readonly timeoutMs: number;
  /** Encoding of compressed messages; default: `identity`. */
  readonly encoding: string;
  /** Whether the caller requests details, with a value of `1` in the router's header for them. */
  readonly needsDetail: boolean;
  /** A header by its lower-case name; repeated headers are joined with commas. */
  header(name: string): string | undefined;
}

/** The HTTP status for a request that is not a gRPC call. */
export type NotGrpc = 405 | 415;

const cache = new WeakMap<RequestHead, CallHead | NotGrpc>();

/** @see https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
export function readCallHead(head: RequestHead, detailHeader: string | undefined): CallHead | NotGrpc {
  const cached = cache.get(head);
  if (cached !== undefined) return cached;
  const read = interpret(head, detailHeader);
  cache.set(head, read);
  return read;
}

function interpret({ method, path, fields }: RequestHead, detailHeader: string | undefined): CallHead | NotGrpc {
  const header = (key: string): string | undefined => {
    const values = fields.filter(({ name }) => name === key).map(({ value }) => value);
    return values.length > 0 ? values.join(', ') : undefined;
  };
  if (!/^application\/grpc($|[+;])/.test(header('content-type') ?? '')) return 415;
  if (method !== 'POST') return 405;
  const timeoutMs = parseTimeout(header('grpc-timeout'));
  const needsDetail = fields.some(({ name, value }) => name === detailHeader && value === '1');
  return { path, timeoutMs, encoding: header('grpc-encoding') ?? 'identity', needsDetail, header };
}

const unitsMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Parses `grpc-timeout`: at most eight digits and a unit.
 *
 * @returns milliseconds; Infinity if absent; NaN if malformed
 * @example `20m` is 20, `1S` is 1000
 */
function parseTimeout(text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY;
  const [, digits = '', unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  return Number(digits) * (unitsMs[unit] ?? Number.NaN);
}
