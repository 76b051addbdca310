import type { Credentials, Endpoint, RedisAddress } from '../engine/open/options.ts';

/** Why an address is not supported. */
interface RefusedAddress {
  readonly refusal: string;
}

/** The address as it may be logged: without credentials. `redis://10.0.0.7:6379/0` */
export function describeAddress(address: RedisAddress): string {
  switch (address.kind) {
    case 'unix':
      return `unix:${address.path}`;
    case 'tcp':
      return `${address.tls ? 'rediss' : 'redis'}://${describeEndpoint(address)}/${address.database}`;
    case 'sentinel':
      return `master ${address.master} of the sentinels ${address.sentinels.map(describeEndpoint).join(', ')}${withTls(address)}`;
    case 'cluster':
      return `the Cluster of ${address.nodes.map(describeEndpoint).join(', ')}${withTls(address)}`;
  }
}

const withTls = ({ tls }: { readonly tls?: boolean }): string => (tls ? ' over TLS' : '');

const describeEndpoint = ({ host, port }: Endpoint): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

/** What an address must look like, in words, by the kind of Redis. */
export const expectedAddress = {
  SINGLE: 'host:port, redis://[user:password@]host:port[/database], or the path of a socket',
  SENTINEL:
    'the name of the master and at least one sentinel: master,host:port,host:port or master,redis://[user:password@]host:port',
  CLUSTER: 'some of its nodes: host:port,host:port or redis://[user:password@]host:port',
} as const;

/**
 * Parses an address as written for envoyproxy/ratelimit; undefined if it is malformed. Every part of a URL is used or
 * refused, none is ignored.
 *
 * @param auth  `password` or `user:password`; overrides the address's
 */
export function parseAddress(
  written: string,
  type: keyof typeof expectedAddress,
  { socket, auth }: { readonly socket: 'unix' | 'tcp' | undefined; readonly auth: string | undefined },
): RedisAddress | RefusedAddress | undefined {
  const credentials = parseCredentials(auth);
  if (type === 'SINGLE') {
    const kind = socket ?? (written.startsWith('/') ? 'unix' : 'tcp');
    const address = kind === 'unix' ? ({ kind, path: written, database: 0 } as const) : parseTcpAddress(written);
    return address && { ...address, ...credentials };
  }
  const [first = '', ...others] = written.split(',');
  if (type === 'CLUSTER') {
    const nodes = parseServers([first, ...others], 'a Cluster has only database 0');
    if (!nodes || 'refusal' in nodes) return nodes;
    return { kind: 'cluster', nodes: nodes.endpoints, ...tlsOption(nodes), ...nodes.credentials, ...credentials };
  }
  if (first === '' || others.length === 0) return undefined;
  const sentinels = parseServers(others, 'a sentinel has no databases');
  if (!sentinels || 'refusal' in sentinels) return sentinels;
  const { endpoints, credentials: sentinelCredentials } = sentinels;
  const own = Object.keys(sentinelCredentials).length > 0 ? { sentinelCredentials } : {};
  return { kind: 'sentinel', master: first, sentinels: endpoints, ...tlsOption(sentinels), ...own, ...credentials };
}

/** `password`, or `user:password`: split at the first colon. */
export function parseCredentials(written: string | undefined): Credentials {
  const [, username = '', password = ''] = /^(?:([^:]*):)?(.*)$/s.exec(written ?? '') ?? [];
  return { ...(username !== '' && { username }), ...(password !== '' && { password }) };
}

/** Masks everything before the `@`, which may hold a password. */
export const withoutCredentials = (written: string): string => written.replace(/^([a-z]+:\/\/)?.*@/s, '$1***@');

/** Servers with the same TLS and credentials. */
interface Servers {
  readonly endpoints: readonly Endpoint[];
  readonly tls: boolean;
  readonly credentials: Credentials;
}

const tlsOption = ({ tls }: Servers): { readonly tls?: true } => (tls ? { tls } : {});

/** @param onlyZero  why only database 0 is possible */
function parseServers(written: readonly string[], onlyZero: string): Servers | RefusedAddress | undefined {
  const servers = written.flatMap((one) => parseTcpAddress(one.trim()) ?? []);
  const [first] = servers;
  if (!first || servers.length < written.length) return undefined;
  for (const { host, port, tls, username, password, database } of servers) {
    const refuse = (why: string): RefusedAddress => ({ refusal: `${describeEndpoint({ host, port })}: ${why}` });
    if (database !== 0) return refuse(`database ${database} cannot be selected: ${onlyZero}`);
    if (tls !== first.tls) return refuse('rediss:// must be written for all of these servers or for none');
    if (username !== first.username || password !== first.password)
      return refuse('user and password must be the same in the URLs of all of these servers');
  }
  const { tls, username, password } = first;
  return {
    endpoints: servers.map(({ host, port }) => ({ host, port })),
    tls,
    credentials: { ...(username !== undefined && { username }), ...(password !== undefined && { password }) },
  };
}

function parseTcpAddress(written: string): Extract<RedisAddress, { kind: 'tcp' }> | undefined {
  const withScheme = /^rediss?:\/\//.test(written) ? written : `redis://${written.replace(/^:/, 'localhost:')}`;
  if (!URL.canParse(withScheme)) return undefined;
  const url = new URL(withScheme);
  const path = /^(?:\/(\d*))?$/.exec(url.pathname);
  const username = decoded(url.username);
  const password = decoded(url.password);
  const isPlain = url.search === '' && url.hash === ''; // an option of another client would have no effect
  if (!path || !isPlain || !/^[^,]+$/.test(url.hostname) || username === undefined || password === undefined)
    return undefined;
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

/** A part of a URL without its percent-escapes; undefined if they are invalid. */
function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
