/** The header with a key's values: `x-` and the key, except for the keys below. */
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
