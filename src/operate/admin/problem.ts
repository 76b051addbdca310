import type { Page } from '../../edge/http/server.ts';

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

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
};

/** The most characters sent of a message: it quotes the request. */
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
