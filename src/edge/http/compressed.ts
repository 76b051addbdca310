import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { HttpRequest } from './request.ts';
import type { Page, Route } from './server.ts';

/** Minimum size of compressed pages. */
const MIN_BYTES = 1_024;

/** Compresses a route's pages for clients that accept gzip. Meant for operators' pages, which are requested rarely. */
export function compressed(route: Route): Route {
  /** The compressed form of each body, for all its readers. */
  const known = new WeakMap<Buffer, Promise<Buffer>>();
  const compress = (body: Buffer): Promise<Buffer> => {
    const running = known.get(body) ?? promisify(gzip)(body);
    known.set(body, running);
    return running;
  };
  return {
    ...route,
    async answer(request): Promise<Page> {
      const page = await route.answer(request);
      if (page.follow || page.headers?.['content-encoding']) return page;
      const body = typeof page.body === 'string' ? Buffer.from(page.body) : page.body;
      if (body.length < MIN_BYTES) return page;
      const vary = [page.headers?.vary, 'accept-encoding'].filter((name) => name !== undefined).join(', ');
      const headers = { ...page.headers, vary };
      if (!acceptsGzip(request)) return { ...page, headers };
      return { ...page, headers: { ...headers, 'content-encoding': 'gzip' }, body: await compress(body) };
    },
  };
}

export const acceptsGzip = ({ headers }: HttpRequest): boolean =>
  isListed(String(headers['accept-encoding'] ?? ''), ['gzip', '*']);

/**
 * Whether a header such as `accept` lists one of these names, with a weight above 0.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9110#name-content-negotiation-fields
 */
export const isListed = (header: string, names: readonly string[]): boolean =>
  header.split(',').some((item) => {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    return names.includes(name) && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
