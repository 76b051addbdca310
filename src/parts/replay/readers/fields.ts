import type { FieldReaders, ReadField, RequestFields } from '../../lab/mapping/actions.ts';

/** The fields of an access log line, by the names that the log gives them. */
export type LogFields = RequestFields;

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
  ...['start_time', 'time', 'timestamp', '@timestamp', 'time_local', 'time_iso8601', 'ts', 'msec', 'date'],
];
const ADDRESS_NAMES = [
  ...['downstream_remote_address', 'remote_address', 'remote_addr', 'client_ip', 'client_address', 'ip'],
  'remote_ip',
];
const STATUS_NAMES = ['response_code', 'status', 'code', 'status_code'];
const CLUSTER_NAMES = ['upstream_cluster', 'cluster'];
const SOURCE_NAMES = ['source_cluster', 'service_cluster'];

/** Names of fields from a mapping, which take precedence over the standard ones. */
interface FieldNames {
  readonly time: string | undefined;
  readonly remoteAddress: string | undefined;
  readonly status: string | undefined;
  /** Field names by lower-case header. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Reads the fields that mappings use; undefined if the log does not have the field. */
export class LogReaders implements FieldReaders {
  readonly #headers: ReadonlyMap<string, string>;
  /** The raw value of the time field, which may be a number. */
  readonly time: (fields: LogFields) => unknown;
  readonly address: ReadField;
  /** Envoy sends whole addresses. */
  readonly ipv6Prefix = 128;
  readonly status: ReadField;
  readonly cluster = readFirst(CLUSTER_NAMES);
  /** Envoy sends an empty text without a cluster of its own. */
  readonly sourceCluster: ReadField = (fields) => readFirst(SOURCE_NAMES)(fields) ?? '';

  constructor({ time, remoteAddress, status, headers }: FieldNames) {
    this.#headers = headers;
    this.time = rawField(time === undefined ? TIME_NAMES : [time]);
    this.address = readFirst(remoteAddress === undefined ? ADDRESS_NAMES : [remoteAddress]);
    this.status = readFirst(status === undefined ? STATUS_NAMES : [status]);
  }

  /** The field that is named as in `%DYNAMIC_METADATA(namespace:key)%`. */
  metadata(namespace: string, path: readonly string[]): (fields: LogFields) => unknown {
    const name = [namespace, ...path].join(':');
    return (fields) => fields[name];
  }

  /** The status is the only command that logs have under a name of their own. */
  command(name: string): ReadField {
    return name === 'RESPONSE_CODE' ? this.status : () => undefined;
  }

  /** A request header or an HTTP/2 pseudo-header. */
  header(header: string): ReadField {
    const name = header.toLowerCase();
    const given = this.#headers.get(name);
    return readFirst(given === undefined ? headerAliases(name) : [given]);
  }
}

const rawField =
  (names: readonly string[]) =>
  (fields: LogFields): unknown => {
    for (const name of names) {
      const value = fields[name];
      if (value !== undefined && value !== null && value !== '-') return value;
    }
    return undefined;
  };

/** Names that logs may use for a request header. */
export function headerAliases(name: string): readonly string[] {
  const known = HEADER_NAMES[name];
  if (known) return known;
  const underscored = name.replaceAll('-', '_');
  return [...new Set([name, underscored, `http_${underscored}`])];
}

/** Reads the first of several fields with a value; Envoy and nginx write `-` for an absent one. */
function readFirst(names: readonly string[]): ReadField {
  return (fields) => {
    for (const name of names) {
      const text = toText(fields[name]);
      if (text !== undefined) return text;
    }
    return undefined;
  };
}

/** A field as text, or undefined if it has no value. */
export function toText(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '-' || value === '' ? undefined : value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}

/** Content of a field with a standard name, where `other` is a status, a cluster or a request header. */
export function fieldKind(name: string): 'time' | 'address' | 'other' | undefined {
  if (TIME_NAMES.includes(name)) return 'time';
  if (ADDRESS_NAMES.includes(name)) return 'address';
  const others = [STATUS_NAMES, CLUSTER_NAMES, ...Object.values(HEADER_NAMES)];
  return others.some((names) => names.includes(name)) ? 'other' : undefined;
}
