import type { Answers } from '../../src/operate/answers/all.ts';
import type { Explanation } from '../../src/parts/lab/answers/explain.ts';
import type { Pair } from './route.ts';
import { loadSession, session } from './session.ts';

/** A response whose status is not 2xx. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

type Operation = keyof Answers;
type Parameters = Readonly<Record<string, string | undefined>>;

/**
 * Calls an operation such as `GET /api/v1/top`.
 *
 * @param body  JSON, or the text of a rule file
 */
export async function call<O extends Operation>(
  operation: O,
  { params = {}, body }: { readonly params?: Parameters; readonly body?: object | string } = {},
): Promise<Answers[O]> {
  const [method = '', path = ''] = operation.split(' ');
  const query = new URLSearchParams(
    Object.entries(params).filter((pair): pair is [string, string] => pair[1] !== undefined),
  ).toString();
  const csrf = session.peek()?.csrf;
  const isText = typeof body === 'string';
  const init: RequestInit = {
    method,
    headers: {
      ...(csrf !== undefined && { 'x-weir-csrf': csrf }),
      ...(isText && { 'content-type': 'application/yaml' }),
    },
    ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
  };
  const response = await fetch(`..${path}${query === '' ? '' : `?${query}`}`, init).catch(() => {
    throw new ApiError(0, 'The service cannot be reached.');
  });
  if (response.ok) return (await response.json()) as Answers[O]; // as documented
  if (response.status === 401 && session.peek()?.role !== undefined) void loadSession(); // the session has expired
  const { detail } = (await response.json().catch(() => ({}))) as { detail?: string };
  throw new ApiError(response.status, detail ?? `${response.status} ${response.statusText}`);
}

type Read = Operation extends infer O ? (O extends `GET /api/v1/${infer P}` ? P : never) : never;

/** Reads what is at a path below `/api/v1/`. */
export const get = <P extends Read>(path: P, params: Parameters = {}): Promise<Answers[`GET /api/v1/${P}`]> =>
  call(`GET /api/v1/${path}`, { params });

export const explain = (domain: string, entries: readonly Pair[], hits: number): Promise<Explanation> =>
  call('POST /api/v1/explain', {
    params: { counted: 'true' },
    body: { domain, descriptors: [{ entries, hits_addend: hits }] },
  });
