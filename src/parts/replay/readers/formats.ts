import { parse } from 'csv-parse/sync';
import { counted } from '../../../base/texts.ts';
import type { LineReader } from '../input.ts';
import { fieldKind, type LogFields } from './fields.ts';
import type { LogFormatName } from './format-names.ts';

/** Parses the lines of a file, from the first on. */
export const openLineParser = (format: LogFormatName): LineReader<LogFields> => parsers[format]();

const each =
  (parse: (line: string) => LogFields | string | undefined): LineReader<LogFields> =>
  (lines) =>
    lines.map((line) => (line === '' ? undefined : parse(line)));

const parsers: Readonly<Record<LogFormatName, () => LineReader<LogFields>>> = {
  json: () => each(parseObject),
  'envoy-text': () => each(matching(ENVOY_TEXT, "expected Envoy's or Istio's default text format")),
  nginx: () => each(matching(NGINX_COMBINED, 'expected the combined format of nginx')),
  csv: tableParser,
  k6: () => each(k6Request),
  vegeta: () => each(withUrl),
};

function parseObject(line: string): LogFields | string {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as LogFields; // an object
    return 'expected a JSON object';
  } catch (error) {
    return `not JSON: ${error instanceof Error ? error.message : error}`;
  }
}

/** @see https://nginx.org/en/docs/http/ngx_http_log_module.html */
const NGINX_COMBINED =
  /^(?<remote_addr>\S+) \S+ (?<remote_user>[^[]+) \[(?<time_local>[^\]]+)\] "(?:(?<method>[A-Z]+) (?<path>[^"]*?)(?: HTTP\/[\d.]+)?|[^"]*)" (?<status>\d{3}) (?<body_bytes_sent>\d+|-)(?: "(?<referer>(?:[^"\\]|\\.)*)" "(?<user_agent>(?:[^"\\]|\\.)*)"(?: .*)?)?$/;

/**
 * Envoy's default format, which Istio extends by reasons, addresses and the route's name.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage
 * @see https://istio.io/latest/docs/tasks/observability/logs/access-log/
 */
const ENVOY_TEXT =
  /^\[(?<start_time>[^\]]+)\] "(?<method>\S+) (?<path>\S+) (?<protocol>\S+)" (?<response_code>\d+) (?<response_flags>\S+) (?:(?<response_code_details>\S+) \S+ "[^"]*" )?(?<bytes_received>\d+) (?<bytes_sent>\d+) (?<duration>\d+) \S+ "(?<x_forwarded_for>[^"]*)" "(?<user_agent>[^"]*)" "(?<request_id>[^"]*)" "(?<authority>[^"]*)" "(?<upstream_host>[^"]*)"(?: (?<upstream_cluster>\S+) \S+ \S+ (?<downstream_remote_address>\S+) \S+ (?<route_name>\S+))?$/;

const matching =
  (format: RegExp, expected: string) =>
  (line: string): LogFields | string =>
    format.exec(line)?.groups ?? expected;

/** A point of k6's `--out json`; only points of `http_reqs` are requests. */
function k6Request(line: string): LogFields | string | undefined {
  if (!line.includes('"http_reqs"')) return line.startsWith('{') ? undefined : 'expected a JSON object';
  const point = parseObject(line);
  if (typeof point === 'string') return point;
  if (point.metric !== 'http_reqs' || point.type !== 'Point') return undefined;
  const data = point.data as { readonly time?: unknown; readonly tags?: LogFields | null } | null | undefined; // k6's
  const { url, ...tags } = data?.tags ?? {};
  return { ...tags, ...splitUrl(url), time: data?.time };
}

/** A hit of `vegeta encode --to json`. */
function withUrl(line: string): LogFields | string {
  const hit = parseObject(line);
  return typeof hit === 'string' ? hit : { ...hit, ...splitUrl(hit.url) };
}

/** The parts of a URL that describe the request, under names that logs use. */
function splitUrl(url: unknown): LogFields {
  const [, authority, path] = typeof url === 'string' ? (/^[a-z]+:\/\/([^/?#]*)([^#]*)/.exec(url) ?? []) : [];
  return authority === undefined ? {} : { url, authority, path: path === '' ? '/' : path };
}

/** Recognizes the format of a line, or returns undefined. */
export function recognizeFormat(line: string): LogFormatName | undefined {
  if (line.startsWith('{')) {
    const fields = parseObject(line);
    if (typeof fields === 'string') return undefined;
    if ('metric' in fields && 'type' in fields) return 'k6';
    return 'attack' in fields && 'latency' in fields && 'seq' in fields ? 'vegeta' : 'json';
  }
  if (ENVOY_TEXT.test(line)) return 'envoy-text';
  if (NGINX_COMBINED.test(line)) return 'nginx';
  return isTableHeader(line) ? 'csv' : undefined;
}

type Row = readonly string[];

/** Parses a table with a header. Each line is a row, so a quoted value cannot contain a line break. */
function tableParser(): LineReader<LogFields> {
  let parseRows: LineReader<LogFields> | undefined;
  return (lines) => {
    if (parseRows) return parseRows(lines);
    const from = lines.findIndex((line) => line !== '');
    const header = lines[from];
    if (header === undefined) return lines.map(() => undefined);
    const delimiter = findDelimiter(header);
    const names = parseRow(header, delimiter);
    if (typeof names === 'string') return lines.map((_, at) => (at === from ? names : undefined));
    parseRows = rowParser(
      names.map((name) => name.trim()),
      delimiter,
    );
    return [...lines.slice(0, from + 1).map(() => undefined), ...parseRows(lines.slice(from + 1))];
  };
}

/** Parses the rows below a header. */
function rowParser(names: Row, delimiter: string): LineReader<LogFields> {
  const toFields = (row: Row | string): LogFields | string => {
    if (typeof row === 'string') return row;
    if (row.length !== names.length) return `expected ${counted(names.length, 'value')}, got ${row.length}`;
    const fields: Record<string, string> = {};
    for (let at = 0; at < row.length; at++) fields[names[at] ?? ''] = row[at] ?? '';
    return fields;
  };
  return (lines) => {
    const rows = lines.includes('') ? undefined : parseAll(lines, delimiter);
    if (rows) return rows.map(toFields);
    return lines.map((line) => (line === '' ? undefined : toFields(parseRow(line, delimiter))));
  };
}

/** Parses all lines together, which is much cheaper than one by one; undefined if one is invalid. */
function parseAll(lines: readonly string[], delimiter: string): readonly Row[] | undefined {
  try {
    const rows = parse(lines.join('\n'), { delimiter, relax_column_count: true });
    return rows.length === lines.length ? rows : undefined;
  } catch {
    return undefined; // one of the lines is invalid, so each is parsed separately
  }
}

function parseRow(line: string, delimiter: string): Row | string {
  if (!line.includes('"')) return line.split(delimiter);
  try {
    return parse(line, { delimiter, relax_column_count: true })[0] ?? 'no values';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const findDelimiter = (header: string): string =>
  [',', ';', '\t'].toSorted((a, b) => header.split(b).length - header.split(a).length)[0] ?? ',';

/** Whether a line is the header of a table, with several names of which one is a standard name of the time. */
function isTableHeader(line: string): boolean {
  const names = line.split(findDelimiter(line));
  if (names.length < 2 || !names.every((name) => COLUMN_NAME.test(name))) return false;
  return names.some((name) => fieldKind(name.replaceAll('"', '').trim()) === 'time');
}

/** A column name, or a part of a quoted one. */
const COLUMN_NAME = /^\s*"?[^\d"=[\]{}][^"=[\]{}]*"?\s*$/;
