import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { HttpRequest } from './request.ts';
import type { Page, Route } from './server.ts';

const compress = promisify(gzip);

/** Smaller pages are not compressed. */
const MIN_CHARACTERS = 1_024;

/**
 * The route with its pages compressed for clients that accept gzip. For operators' pages, which are requested rarely.
 */
export const compressed = (route: Route): Route => ({
  ...route,
  async answer(request) {
    const page = await route.answer(request);
    if (
      page.follow ||
      typeof page.body !== 'string' ||
      page.body.length < MIN_CHARACTERS ||
      page.headers?.['content-encoding']
    )
      return page;
    const vary = [page.headers?.vary, 'accept-encoding'].filter((name) => name !== undefined).join(', ');
    const headers = { ...page.headers, vary };
    if (!acceptsGzip(request)) return { ...page, headers };
    const body = await compress(page.body);
    return { ...page, headers: { ...headers, 'content-encoding': 'gzip' }, body } satisfies Page;
  },
});

/** @see https://www.rfc-editor.org/rfc/rfc9110#name-accept-encoding */
export function acceptsGzip({ headers }: HttpRequest): boolean {
  return String(headers['accept-encoding'] ?? '')
    .split(',')
    .some((coding) => /^\s*(gzip|\*)\s*(;(?!\s*q=0(\.0*)?\s*$).*)?$/i.test(coding));
}
