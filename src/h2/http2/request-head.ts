import type { HeaderField } from './hpack/field.ts';

/** The head of a request. Requests with the same header block share it while the dynamic table is unchanged. */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Fields in order, without pseudo-headers. */
  readonly fields: readonly HeaderField[];
  /** The length of the body, if `content-length` states it. */
  readonly contentLength: number | undefined;
}

/** Connection-specific fields of HTTP/1 (RFC 9113, 8.2.2). */
const connectionFields = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);
const pseudoFields = new Set([':method', ':scheme', ':path', ':authority']);

/**
 * Validates a request's fields.
 *
 * @returns a string with the reason if the request is malformed (RFC 9113, 8.1.1)
 */
export function readHead(fields: readonly HeaderField[]): RequestHead | string {
  const pseudo = new Map<string, string>();
  for (const { name, value } of fields) {
    if (!name.startsWith(':')) break;
    if (!pseudoFields.has(name)) return `unknown pseudo-header ${name}`;
    if (pseudo.has(name)) return `duplicate pseudo-header ${name}`;
    pseudo.set(name, value);
  }
  const others = fields.slice(pseudo.size);
  const problem = findFieldProblem(fields, others);
  if (problem !== undefined) return problem;
  const method = pseudo.get(':method');
  const path = pseudo.get(':path') ?? '';
  if (method === undefined) return ':method is missing';
  const isConnect = method === 'CONNECT';
  if (isConnect ? pseudo.has(':scheme') || path !== '' : !pseudo.has(':scheme') || path === '')
    return ':scheme and :path are required, except for CONNECT';
  const lengths = others.filter(({ name }) => name === 'content-length').map(({ value }) => value);
  const [length] = lengths;
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return 'content-length must be a number';
  if (lengths.some((other) => other !== length)) return 'two content-length fields differ';
  return { method, path, fields: others, contentLength: length === undefined ? undefined : Number(length) };
}

/**
 * The reason why fields are malformed, or undefined if they are valid.
 *
 * @param others  those after the pseudo-headers; trailers have none
 */
export function findFieldProblem(fields: readonly HeaderField[], others = fields): string | undefined {
  const malformed = fields.find(({ isWellFormed }) => !isWellFormed);
  if (malformed) return `the field ${JSON.stringify(malformed.name.slice(0, 100))} is malformed`;
  for (const { name, value } of others) {
    if (name.startsWith(':')) return `pseudo-header ${name} follows a regular field`;
    if (connectionFields.has(name)) return `${name} is not allowed in HTTP/2`;
    if (name === 'te' && value !== 'trailers') return 'te must be trailers';
  }
  return undefined;
}
