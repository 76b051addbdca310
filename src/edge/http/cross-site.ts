import type { IncomingMessage } from 'node:http';

/**
 * The reason to refuse a request that a browser sent for a page of another site, or undefined. Such a page could use up
 * limits without seeing the responses. Browsers send `Origin` with every request that has a body, and `Sec-Fetch-Site`
 * over TLS and to localhost; backends send neither.
 *
 * @see https://www.w3.org/TR/fetch-metadata/
 * @see https://fetch.spec.whatwg.org/#origin-header
 */
export function crossSiteReason({ headers }: IncomingMessage): string | undefined {
  const { 'sec-fetch-site': site, origin, host = '' } = headers;
  if (site !== undefined && site !== 'same-origin' && site !== 'none')
    return `sent by a page of another site: Sec-Fetch-Site must be same-origin or none, got '${site}'`;
  if (origin !== undefined && !hasSameHost(origin, host))
    return `sent by a page of another site: Origin must be that of the Host '${host}', got '${origin}'`;
  return undefined;
}

/** Compares only host and port, since a proxy may have terminated TLS. */
function hasSameHost(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false; // such as `null`
  const { protocol, host: originHost } = new URL(origin);
  const own = `${protocol}//${host}`;
  return originHost !== '' && URL.canParse(own) && new URL(own).host === originHost;
}
