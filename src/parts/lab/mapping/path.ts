/**
 * The one spelling of a request's path, as of Envoy with `normalize_path` and `merge_slashes`: unreserved characters are
 * not encoded, dot segments are resolved, backslashes are slashes, and slashes are merged. The query stays as it is.
 * Without a fragment, a scheme and a host, which servers ignore.
 */
export function normalizePath(target: string): string {
  const [, path = '', query = ''] = /^(?:https?:\/\/[^/?#]*)?([^?#]*)(\?[^#]*)?/i.exec(target) ?? [];
  if (!path.startsWith('/')) return path + query;
  const decoded = path.replace(UNRESERVED, (octet) => decodeURIComponent(octet)).replaceAll('\\', '/');
  return withoutDots(decoded.replace(UNSAFE, encodeURIComponent)).replace(/\/{2,}/g, '/') + query;
}

const UNRESERVED = /%(?:2[de]|3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])/gi;

/** Characters that Envoy encodes. */
const UNSAFE = /["<>^`{|}]/g;

/** Resolves `.` and `..`, also with parameters: some servers take `..;x` for `..`. */
function withoutDots(path: string): string {
  const kept: string[] = [];
  const segments = path.slice(1).split('/');
  for (const [at, segment] of segments.entries()) {
    const dots = /^\.{1,2}(?=;|$)/.exec(segment)?.[0];
    if (dots === '..') kept.pop();
    if (dots === undefined) kept.push(segment);
    else if (at === segments.length - 1) kept.push('');
  }
  return `/${kept.join('/')}`;
}
