import { STATUS_CODES } from 'node:http';
import type { Page } from '../../edge/http/server.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';

/** A problem with one part of a request. */
interface Flaw {
  /** A JSON pointer into the body, or the name of a query parameter. */
  readonly at: string;
  readonly detail: string;
}

/**
 * A 4xx or 5xx response.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9457
 */
export class ApiProblem extends Error {
  override readonly name = 'Problem';
  readonly status: number;
  readonly flaws: readonly Flaw[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    detail: string,
    more: { flaws?: readonly Flaw[]; headers?: Record<string, string> } = {},
  ) {
    super(detail);
    this.status = status;
    this.flaws = more.flaws ?? [];
    this.headers = more.headers ?? {};
  }
}

/** What another process has found, or why it found nothing, as a message. */
export type Finding<T> =
  | { readonly found: T }
  | { readonly problem: { readonly status: number; readonly detail: string } };

export async function settle<T>(finding: Promise<T>): Promise<Finding<T>> {
  try {
    return { found: await finding };
  } catch (cause) {
    if (cause instanceof ApiProblem) return { problem: { status: cause.status, detail: cause.message } };
    if (cause instanceof StoreUnavailable) return { problem: { status: 503, detail: cause.message } };
    throw cause;
  }
}

/**
 * @param finding  undefined: no process replied in time
 * @throws ApiProblem  the problem of the finding; 503: there is none
 */
export function foundIn<T>(finding: Finding<T> | undefined): T {
  if (!finding) throw new ApiProblem(503, 'no process that answers requests replied in time');
  if ('problem' in finding) throw new ApiProblem(finding.problem.status, finding.problem.detail);
  return finding.found;
}

/** Those of RFC 9110; Node has an older one for 413. */
const titles: Readonly<Record<number, string | undefined>> = { ...STATUS_CODES, 413: 'Content Too Large' };

/** Maximum characters sent of a message, which may quote the request. */
const MAX_DETAIL_LENGTH = 1_000;

export const problemPage = ({ status, message, flaws, headers }: ApiProblem): Page => ({
  status,
  contentType: 'application/problem+json',
  headers,
  body: `${JSON.stringify({
    type: 'about:blank',
    title: titles[status] ?? 'Error',
    status,
    detail: message.slice(0, MAX_DETAIL_LENGTH),
    ...(flaws.length > 0 && {
      errors: flaws.map(({ at, detail }) => ({ at, detail: detail.slice(0, MAX_DETAIL_LENGTH) })),
    }),
  })}\n`,
});
