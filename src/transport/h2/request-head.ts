import type { Field } from './hpack/field.ts';

/** What a request begins with. The same object for every request whose header block is the same, while the connection's tables stand still. */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Without the pseudo-headers, in order. */
  readonly fields: readonly Field[];
  /** Octets of the body that `content-length` announces. */
  readonly contentLength: number | undefined;
}

/** Fields that are about an HTTP/1 connection (RFC 9113, 8.2.2). */
const connectionFields = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);
const pseudoFields = new Set([':method', ':scheme', ':path', ':authority']);

/**
 * Reads a request's fields.
 *
 * @returns a text  the request is malformed, and this is why (RFC 9113, 8.1.1)
 */
export function readHead(fields: readonly Field[]): RequestHead | string {
  const pseudo = new Map<string, string>();
  for (const { name, value } of fields) {
    if (!name.startsWith(':')) break;
    if (!pseudoFields.has(name)) return `no request has a field ${name}`;
    if (pseudo.has(name)) return `${name} is there twice`;
    pseudo.set(name, value);
  }
  const others = fields.slice(pseudo.size);
  const problem = [...fields.filter(({ isWellFormed }) => !isWellFormed).map(malformed)][0] ?? findProblem(others);
  if (problem !== undefined) return problem;
  const method = pseudo.get(':method');
  const path = pseudo.get(':path') ?? '';
  if (method === undefined) return ':method is missing';
  const isConnect = method === 'CONNECT';
  if (isConnect ? pseudo.has(':scheme') || path !== '' : !pseudo.has(':scheme') || path === '')
    return 'a request has :scheme and :path, unless it is CONNECT';
  const lengths = others.filter(({ name }) => name === 'content-length').map(({ value }) => value);
  const [length] = lengths;
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return 'content-length must be a number';
  if (lengths.some((other) => other !== length)) return 'two content-length fields differ';
  return { method, path, fields: others, contentLength: length === undefined ? undefined : Number(length) };
}

/** Why fields that come after a body are malformed; undefined: they are not. */
export function findTrailersProblem(fields: readonly Field[]): string | undefined {
  return [...fields.filter(({ isWellFormed }) => !isWellFormed).map(malformed)][0] ?? findProblem(fields);
}

const malformed = ({ name }: Field): string => `the field ${JSON.stringify(name.slice(0, 100))} is malformed`;

function findProblem(fields: readonly Field[]): string | undefined {
  for (const { name, value } of fields) {
    if (name.startsWith(':')) return `${name} is not at the head of a request`;
    if (connectionFields.has(name)) return `${name} is not for HTTP/2`;
    if (name === 'te' && value !== 'trailers') return 'te is not trailers';
  }
  return undefined;
}
