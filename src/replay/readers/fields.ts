/** What a line of an access log says of its request, by the names that the log gives its fields. */
export type LogFields = Readonly<Record<string, unknown>>;

/** What a part of a request is called in logs, in order of preference. */
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

/** Names of fields that a mapping gives; they go before the usual ones. */
export interface FieldNames {
  readonly time?: string;
  readonly remoteAddress?: string;
  readonly status?: string;
  /** By header in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

export type ReadField = (fields: LogFields) => string | undefined;

/** Reads a request header, pseudo headers of HTTP/2 included; undefined where the log has it not. */
export function headerReader(header: string, names: FieldNames): ReadField {
  const name = header.toLowerCase();
  const given = names.headers.get(name);
  return given === undefined ? firstOf(namesOfHeader(name)) : firstOf([given]);
}

/** The names under which logs may have a request header. */
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

/** `10.0.0.7:4242` and `[::1]:4242` lose their port; `::1` stays. */
export function withoutPort(address: string): string {
  if (address.startsWith('[')) return address.slice(1, address.indexOf(']'));
  const colon = address.indexOf(':');
  return colon >= 0 && colon === address.lastIndexOf(':') ? address.slice(0, colon) : address;
}

/** The first of some fields that has a value; `-` is how Envoy and nginx write that there is none. */
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

/** A field as text; undefined where it has no value. */
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

/** Whether a field is one of those that say when, from where or how a request was answered, not what it asked. */
export const isKnownField = (name: string): boolean =>
  [TIME_NAMES, ADDRESS_NAMES, STATUS_NAMES, CLUSTER_NAMES, ...Object.values(HEADER_NAMES)].some((names) =>
    names.includes(name),
  );
export const isTimeField = (name: string): boolean => TIME_NAMES.includes(name);
export const isAddressField = (name: string): boolean => ADDRESS_NAMES.includes(name);
