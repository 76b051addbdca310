/** The header that a key's values come from: `x-` and the key, except for these. */
export function headerOf(key: string): string {
  const name = key.toLowerCase();
  return Object.hasOwn(headers, name) ? (headers[name] as string) : `x-${name.replace(/[^a-z0-9]+/g, '-')}`; // just found
}

const headers: Readonly<Record<string, string>> = {
  path: ':path',
  method: ':method',
  host: ':authority',
  authority: ':authority',
  user_agent: 'user-agent',
  authorization: 'authorization',
};
