import { pipeline, Readable } from 'node:stream';
import { createGzip, type Gzip } from 'node:zlib';
import { sizeOf } from './connection.ts';
import type { HttpRequest } from './request.ts';
import type { Page, Route } from './server.ts';

/** Smaller pages are not compressed. */
const MIN_BYTES = 1_024;

/** If the reader ends, the source of the pieces ends, and the reverse. */
const compressStream = (pieces: Iterable<Buffer> | AsyncIterable<Buffer>): Gzip =>
  pipeline(Readable.from(pieces), createGzip(), () => {}); // the reader gets the error as well

const compress = (pieces: readonly Buffer[]): Promise<readonly Buffer[]> => compressStream(pieces).toArray();

/** Compresses each rendering once, for all its readers. */
function shareCompression(): typeof compress {
  const known = new WeakMap<readonly Buffer[], Promise<readonly Buffer[]>>();
  return (pieces) => {
    const running = known.get(pieces) ?? compress(pieces);
    known.set(pieces, running);
    return running;
  };
}

/**
 * The route with its pages compressed for clients that accept gzip. For operators' pages, which are requested rarely.
 */
export function compressed(route: Route): Route {
  const share = shareCompression();
  return {
    ...route,
    async answer(request): Promise<Page> {
      const page = await route.answer(request);
      if (page.follow || page.headers?.['content-encoding']) return page;
      const body = typeof page.body === 'string' ? [Buffer.from(page.body)] : page.body;
      const isStream = Symbol.asyncIterator in body;
      if (!isStream && sizeOf(body) < MIN_BYTES) return page;
      const vary = [page.headers?.vary, 'accept-encoding'].filter((name) => name !== undefined).join(', ');
      const headers = { ...page.headers, vary };
      if (!acceptsGzip(request)) return { ...page, headers };
      const compressed = { ...headers, 'content-encoding': 'gzip' };
      return { ...page, headers: compressed, body: isStream ? compressStream(body) : await share(body) };
    },
  };
}

/** @see https://www.rfc-editor.org/rfc/rfc9110#name-accept-encoding */
export function acceptsGzip({ headers }: HttpRequest): boolean {
  return String(headers['accept-encoding'] ?? '')
    .split(',')
    .some((coding) => /^\s*(gzip|\*)\s*(;(?!\s*q=0(\.0*)?\s*$).*)?$/i.test(coding));
}
