import { createHeaderField, type HeaderField } from './field.ts';

/** Names of the static table that have no value there. */
const withoutValue = [
  'accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control',
  'content-disposition content-encoding content-language content-length content-location content-range content-type',
  'cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since',
  'last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after',
  'server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate',
];

/**
 * The static table; its first entry has index 1.
 *
 * @see https://www.rfc-editor.org/rfc/rfc7541#appendix-A
 */
export const staticTable: readonly HeaderField[] = [
  [':authority'],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  ...['200', '204', '206', '304', '400', '404', '500'].map((status) => [':status', status]),
  ['accept-charset'],
  ['accept-encoding', 'gzip, deflate'],
  ...withoutValue.flatMap((names) => names.split(' ').map((name) => [name])),
].map(([name = '', value = '']) => createHeaderField(name, value));
