/** The fields of an access log line, by the names that the log gives them. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The names of request headers in logs, in order of preference. */
const HEADER_NAMES: Readonly<Record<string, readonly string[]>> = {
  ':path': [
    ...['x-envoy-origin-path', 'x-envoy-original-path', ':path', 'path', 'x_envoy_original_path', 'request_uri'],
    'uri',
  ],
  ':method': ['method', ':method', 'request_method', 'http_method'],
  ':authority': [':authority', 'authority', 'host', 'http_host', 'server_name'],
  'x-request-id': ['x-request-id', 'request_id', 'x_request_id'],
};
const TIME_NAMES = [
  'start_time',
  'time',
  'timestamp',
  '@timestamp',
  'time_local',
  'time_iso8601',
  'ts',
  'msec',
  'date',
];
const ADDRESS_NAMES = [
  ...['downstream_remote_address', 'remote_address', 'remote_addr', 'client_ip', 'client_address', 'ip'],
  'remote_ip',
];
const STATUS_NAMES = ['response_code', 'status', 'code', 'status_code'];
const CLUSTER_NAMES = ['upstream_cluster', 'cluster'];

/** Names of fields from a mapping; they take precedence over the usual names. */
export interface FieldNames {
  readonly time?: string;
  readonly remoteAddress?: string;
  readonly status?: string;
  /** By header in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export type ReadField = (fields: LogFields) => string | undefined;

/** Reads a request header or an HTTP/2 pseudo-header; undefined: the log does not have it. */
export function headerReader(header: string, names: FieldNames): ReadField {
  const name = header.toLowerCase();
  const given = names.headers.get(name);
  return given === undefined ? firstOf(namesOfHeader(name)) : firstOf([given]);
}

/** The names that logs may use for a request header. */
export function namesOfHeader(name: string): readonly string[] {
  const known = HEADER_NAMES[name];
  if (known) return known;
  const underscored = name.replaceAll('-', '_');
  return [...new Set([name, underscored, `http_${underscored}`])];
}

/** The client's address without its port. */
export function addressReader({ remoteAddress }: FieldNames): ReadField {
  const read = firstOf(remoteAddress === undefined ? ADDRESS_NAMES : [remoteAddress]);
  return (fields) => {
    const address = read(fields);
    return address === undefined ? undefined : withoutPort(address);
  };
}

export const clusterReader = (): ReadField => firstOf(CLUSTER_NAMES);

/** Removes the port of `10.0.0.7:4242` and `[::1]:4242`; leaves `::1` unchanged. */
function withoutPort(address: string): string {
  if (address.startsWith('[')) return address.slice(1, address.indexOf(']'));
  const colon = address.indexOf(':');
  return colon >= 0 && colon === address.lastIndexOf(':') ? address.slice(0, colon) : address;
}

/** The first of several fields with a value; Envoy and nginx write `-` for an absent value. */
function firstOf(names: readonly string[]): ReadField {
  const [only = '', second] = names;
  if (second === undefined) return (fields) => textOf(fields[only]);
  return (fields) => {
    for (const name of names) {
      const text = textOf(fields[name]);
      if (text !== undefined) return text;
    }
    return undefined;
  };
}

/** A field as text; undefined: it has no value. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '-' || value === '' ? undefined : value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}

/** Reads the raw value of the time field, which may be a number. */
export function timeReader({ time }: FieldNames): (fields: LogFields) => unknown {
  const names = time === undefined ? TIME_NAMES : [time];
  return (fields) => {
    for (const name of names) {
      const value = fields[name];
      if (value !== undefined && value !== null && value !== '-') return value;
    }
    return undefined;
  };
}

export const statusReader = ({ status }: FieldNames): ReadField =>
  firstOf(status === undefined ? STATUS_NAMES : [status]);

/** Whether a field has a usual name: one for a time, an address, a status, a cluster or a request header. */
export const isKnownField = (name: string): boolean =>
  [TIME_NAMES, ADDRESS_NAMES, STATUS_NAMES, CLUSTER_NAMES, ...Object.values(HEADER_NAMES)].some((names) =>
    names.includes(name),
  );
export const isTimeField = (name: string): boolean => TIME_NAMES.includes(name);
export const isAddressField = (name: string): boolean => ADDRESS_NAMES.includes(name);
