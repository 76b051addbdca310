/** A host and its port. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** As whom to speak to a server. */
export interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

/** Where a Redis is, and what kind it is: one server, one that sentinels watch, or a Cluster of which some nodes are named. */
export type RedisAddress =
  | ({ readonly kind: 'unix'; readonly path: string } & Credentials & Database)
  | ({ readonly kind: 'tcp'; readonly tls: boolean } & Endpoint & Credentials & Database)
  | ({ readonly kind: 'sentinel'; readonly master: string; readonly sentinels: readonly Endpoint[] } & Credentials)
  | ({ readonly kind: 'cluster'; readonly nodes: readonly Endpoint[] } & Credentials);

interface Database {
  readonly database: number;
}

/** The address as it may be logged: without credentials. `redis://10.0.0.7:6379/0` */
export function describeAddress(address: RedisAddress): string {
  switch (address.kind) {
    case 'unix':
      return `unix:${address.path}`;
    case 'tcp':
      return `${address.tls ? 'rediss' : 'redis'}://${describeEndpoint(address)}/${address.database}`;
    case 'sentinel':
      return `master ${address.master} of the sentinels ${address.sentinels.map(describeEndpoint).join(', ')}`;
    case 'cluster':
      return `the Cluster of ${address.nodes.map(describeEndpoint).join(', ')}`;
  }
}

const describeEndpoint = ({ host, port }: Endpoint): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

/** What an address must look like, in words, by the kind of Redis. */
export const wantedAddress = {
  SINGLE: 'host:port, redis://[user:password@]host:port[/database], or the path of a socket',
  SENTINEL: 'the name of the master and at least one sentinel: master,host:port,host:port',
  CLUSTER: 'some of its nodes: host:port,host:port',
} as const;

/**
 * Reads an address as envoyproxy/ratelimit has it; undefined where it is none.
 *
 * @param auth  `password` or `user:password`; it goes before what the address says
 */
export function parseAddress(
  written: string,
  type: keyof typeof wantedAddress,
  { socket, auth }: { readonly socket: 'unix' | 'tcp' | undefined; readonly auth: string | undefined },
): RedisAddress | undefined {
  const credentials = parseCredentials(auth);
  if (type === 'SINGLE') {
    const kind = socket ?? (written.startsWith('/') ? 'unix' : 'tcp');
    const address: RedisAddress | undefined =
      kind === 'unix' ? { kind, path: written, database: 0 } : parseTcpAddress(written);
    return address && { ...address, ...credentials };
  }
  const [first = '', ...others] = written.split(',');
  if (type === 'CLUSTER') {
    const nodes = parseEndpoints([first, ...others]);
    return nodes && { kind: 'cluster', nodes, ...credentials };
  }
  const sentinels = others.length > 0 ? parseEndpoints(others) : undefined;
  return first !== '' && sentinels ? { kind: 'sentinel', master: first, sentinels, ...credentials } : undefined;
}

/** `password`, or `user:password`: split at the first colon. */
export function parseCredentials(written: string | undefined): Credentials {
  const [, username = '', password = ''] = /^(?:([^:]*):)?(.*)$/s.exec(written ?? '') ?? [];
  return { ...(username !== '' && { username }), ...(password !== '' && { password }) };
}

/** Whatever stands before an `@` is nobody's business. */
export const withoutCredentials = (written: string): string => written.replace(/^([a-z]+:\/\/)?.*@/s, '$1***@');

function parseEndpoints(written: readonly string[]): readonly Endpoint[] | undefined {
  const endpoints = written.flatMap((one) => parseTcpAddress(one.trim()) ?? []);
  return endpoints.length === written.length ? endpoints.map(({ host, port }) => ({ host, port })) : undefined;
}

function parseTcpAddress(written: string): Extract<RedisAddress, { kind: 'tcp' }> | undefined {
  const withScheme = /^rediss?:\/\//.test(written) ? written : `redis://${written}`;
  if (!URL.canParse(withScheme)) return undefined;
  const url = new URL(withScheme);
  const path = /^(?:\/(\d*))?$/.exec(url.pathname);
  const username = decoded(url.username);
  const password = decoded(url.password);
  if (!path || !/^[^,]+$/.test(url.hostname) || username === undefined || password === undefined) return undefined;
  return {
    kind: 'tcp',
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? 6379 : Number(url.port),
    tls: url.protocol === 'rediss:',
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    database: Number(path[1] ?? 0),
  };
}

/** A part of a URL without its percent-escapes; undefined where they are none. */
function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
