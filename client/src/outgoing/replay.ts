import { randomUUID } from 'node:crypto';
import type { FetchOptions } from './options.ts';

/** The properties of a request that a fetcher uses. */
export interface OutgoingRequest {
  readonly url: URL;
  readonly init: RequestInit | undefined;
  readonly signal: AbortSignal | undefined;
  readonly mayRepeat: boolean;
}

/** @see https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2 */
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);

/** @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/ */
const KEY = 'idempotency-key';

/** @throws TypeError  the URL is invalid */
export function describe(
  input: string | URL | Request,
  init: RequestInit | undefined,
  idempotencyKey: FetchOptions['idempotencyKey'],
): OutgoingRequest {
  const request = input instanceof Request ? input : undefined;
  const url = new URL(request?.url ?? String(input));
  const signal = init?.signal ?? request?.signal;
  const method = (init?.method ?? request?.method ?? 'GET').toUpperCase();
  const isReplayable = init?.body ? !isStream(init.body) : !request?.body;
  const hasMeaning = idempotent.has(method);
  if (hasMeaning || !isReplayable || idempotencyKey === undefined)
    return { url, init, signal, mayRepeat: hasMeaning && isReplayable };
  const headers = new Headers(init?.headers ?? request?.headers);
  if (idempotencyKey === 'add' && !headers.has(KEY)) headers.set(KEY, `"${randomUUID()}"`);
  return { url, init: { ...init, headers }, signal, mayRepeat: headers.has(KEY) };
}

/** Whether the body can be read only once. */
const isStream = (body: object | string): boolean =>
  typeof body === 'object' &&
  (body instanceof ReadableStream || (Symbol.asyncIterator in body && !(body instanceof Blob)));
