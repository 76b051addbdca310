import type { IncomingMessage } from 'node:http';

/**
 * Why a request is refused that a web page of another site made a browser send; undefined where it is none. Such a page need not see the response to
 * use up limits. Backends send none of these headers. Browsers send `Origin` with every request that has a body, and `Sec-Fetch-Site` over TLS and to
 * this machine.
 *
 * @see https://www.w3.org/TR/fetch-metadata/
 * @see https://fetch.spec.whatwg.org/#origin-header
 */
export function crossSiteReason({ headers }: IncomingMessage): string | undefined {
  const { 'sec-fetch-site': site, origin, host = '' } = headers;
  if (site !== undefined && site !== 'same-origin' && site !== 'none')
    return `sent by a page of another site: Sec-Fetch-Site must be same-origin or none, got '${site}'`;
  if (origin !== undefined && !isOriginOf(origin, host))
    return `sent by a page of another site: Origin must be that of the Host '${host}', got '${origin}'`;
  return undefined;
}

/** Compares host and port alone: a proxy may have taken TLS off. */
function isOriginOf(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false; // `null` is one that cannot be
  const { protocol, host: originHost } = new URL(origin);
  const own = `${protocol}//${host}`;
  return originHost !== '' && URL.canParse(own) && new URL(own).host === originHost;
}
