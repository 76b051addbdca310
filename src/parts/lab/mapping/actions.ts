import { clientAddress, networkText } from '../../../base/address.ts';
import { decodeRequestLimit } from '../../../edge/wire/codec.ts';
import { requestUnitNumbers } from '../../../edge/wire/wire.ts';
import type { RequestDescriptor } from '../../../engine/decide/decide.ts';
import type { Entry } from '../../../engine/rules/match/match.ts';
import type { MappingBlock } from './mapping-block.ts';
import { normalizePath } from './path.ts';

/** The entry that stands for any request, so that `require` applies to requests without other descriptors. */
export const everyRequest: Entry = { key: 'generic_key', value: 'every_request' };

/** A request as a proxy or a log describes it. */
export type RequestFields = Readonly<Record<string, unknown>>;

/** Reads a text; undefined if the request does not have it. */
export type ReadField = (fields: RequestFields) => string | undefined;

/** Readers of what actions use. */
export interface FieldReaders {
  /** A request header, or a pseudo-header such as `:path`; the first value of a repeated one. */
  header(name: string): ReadField;
  /** All values of a header; absent: it has at most one. */
  headers?(name: string): (fields: RequestFields) => readonly string[];
  /** A value of the request's or the route's metadata. */
  metadata(namespace: string, path: readonly string[]): (fields: RequestFields) => unknown;
  /** A command of Envoy's formats, such as `RESPONSE_CODE`; absent: none is known. */
  command?(name: string): ReadField;
  /** The client's address, in any spelling. */
  readonly address: ReadField;
  /** The leading bits by which `remote_address` counts IPv6 addresses unless it says otherwise. */
  readonly ipv6Prefix: number;
  /** The upstream cluster. */
  readonly cluster: ReadField;
  /** The cluster of the proxy itself. */
  readonly sourceCluster: ReadField;
}

/** Reads an entry; `skip` to add none but keep the others, or undefined to drop the descriptor. */
type ReadEntry = (fields: RequestFields) => Entry | 'skip' | undefined;

/** What is known of an action's entry without a request. */
export interface EntryShape {
  readonly key: string;
  /** Value; undefined if it depends on the request. */
  readonly value: string | undefined;
}

interface Action extends EntryShape {
  readonly read: ReadEntry;
  /** Whether every request has the entry. */
  readonly isAlways?: boolean;
  readonly skips?: boolean;
  /** The request headers that it is read from. */
  readonly headers?: readonly string[];
  /** Whether it matches one path exactly, so that a query makes a difference. */
  readonly isExactPath?: boolean;
}

type ReadAction = (block: MappingBlock, readers: FieldReaders) => Action | undefined;

/**
 * Envoy's actions, by name.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto
 */
const actions: Readonly<Record<string, ReadAction>> = {
  request_headers: requestHeaders,
  query_parameters: queryParameters,
  query_parameter_value_match: queryValueMatch,
  remote_address: remoteAddress,
  masked_remote_address: maskedRemoteAddress,
  remote_address_match: addressMatch,
  header_value_match: headerValueMatch,
  generic_key: genericKey,
  metadata: metadataEntry,
  source_cluster: (block, readers) => clusterEntry(block, 'source_cluster', readers.sourceCluster),
  destination_cluster: (block, readers) => clusterEntry(block, 'destination_cluster', readers.cluster),
};

export const actionNames = Object.keys(actions);

/** An item of `rate_limits`. */
export type LimitItem = Readonly<ReturnType<typeof readLimitItem>>;

/**
 * Reads `rate_limits` of a mapping: the items of its `stage`, 0 if it has none, that Envoy sends before it forwards a
 * request, and those that report its status afterwards.
 */
export function readLimitItems(block: MappingBlock, readers: FieldReaders) {
  const stage = block.integer('stage', [0, 10]) ?? 0;
  const all = block.blocks('rate_limits').map((one) => readLimitItem(one, readers));
  const ofStage = all.filter((item) => item.stage === stage);
  return { items: ofStage.filter(({ isLate }) => !isLate), reports: ofStage.filter(isReport) };
}

const isReport = ({ isLate, isNegative, hits }: LimitItem): boolean =>
  isLate && !isNegative && hits === '%RESPONSE_CODE%';

/** The descriptors of a request, except those without entries, which no rule matches. */
export const readDescriptors = (items: readonly LimitItem[], fields: RequestFields): readonly RequestDescriptor[] =>
  items.flatMap(({ read }) => read(fields) ?? []).filter(({ entries }) => entries.length > 0);

/** Reads an item of `rate_limits`. @param extensions  reads actions of extensions */
export function readLimitItem(block: MappingBlock, readers: FieldReaders, extensions?: ReadAction) {
  const found = block.blocks('actions').flatMap((item) => readAction(item, readers, extensions) ?? []);
  const hits = readHits(block.block('hits_addend'), readers);
  const limit = readLimit(block.block('limit'), readers);
  const item = {
    /** Entries; those of unknown actions are left out. */
    shape: found.map(({ key, value }): EntryShape => ({ key, value })),
    stage: block.integer('stage', [0, 10]) ?? 0,
    /** Whether it is sent when the stream has ended. */
    isLate: block.flag('apply_on_stream_done', false),
    /** The key of a runtime setting that can switch it off. */
    disableKey: block.text('disable_key'),
    isNegative: hits.isNegative,
    /** Hits as the configuration states them; undefined if it does not. */
    hits: hits.text,
    /** Whether every request has it. */
    isUnconditional: found.every(({ isAlways, skips }) => isAlways || skips) && !found.every(({ skips }) => skips),
    headers: [...new Set(found.flatMap(({ headers = [] }) => headers))],
    hasExactPath: found.some(({ isExactPath }) => isExactPath),
    /** Reads the descriptor of a request; undefined if there is none. @param ownHits  whether its list may state hits */
    read(fields: RequestFields, ownHits = true): RequestDescriptor | undefined {
      const entries = createEntries(found, fields);
      const count = ownHits ? hits.read(fields) : 1;
      return entries && count !== undefined ? { entries, requestLimit: limit(fields), hits: count } : undefined;
    },
  };
  block.done();
  return item;
}

/** Creates the entries of a descriptor. As in Envoy, an action without a value drops the descriptor. */
function createEntries(found: readonly Action[], fields: RequestFields): readonly Entry[] | undefined {
  const entries: Entry[] = [];
  for (const { read } of found) {
    const entry = read(fields);
    if (entry === undefined) return undefined;
    if (entry !== 'skip') entries.push(entry);
  }
  return entries;
}

/** Most hits of a descriptor; Envoy drops a descriptor that has more. */
const MAX_HITS = 1_000_000_000;

function readHits(block: MappingBlock | undefined, readers: FieldReaders) {
  const number = block?.integer('number', [0, MAX_HITS]);
  const format = block?.text('format');
  const isNegative = block?.flag('is_negative_hits', false) ?? false;
  block?.done();
  const sign = isNegative ? -1 : 1;
  const read = format === undefined ? undefined : readFormat(format, readers);
  return {
    text: format ?? (number === undefined ? undefined : String(number)),
    isNegative,
    read(fields: RequestFields): number | undefined {
      if (read === undefined) return (number ?? 1) * sign;
      const value = hitsOf(read(fields));
      return value === undefined ? undefined : value * sign;
    },
  };
}

/** The hits that a formatted text means to Envoy: a number without its fraction, or none. */
function hitsOf(text: string | undefined): number | undefined {
  const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text);
  return value >= 0 && value <= MAX_HITS ? Math.trunc(value) : undefined;
}

/** Reads a format of Envoy's that is one command; others have no value. */
function readFormat(format: string, readers: FieldReaders): ReadField {
  const [, command = '', kind, name = ''] = /^%((?:(REQ|DYNAMIC_METADATA)\(([^)]*)\))|[^%]+)%$/.exec(format) ?? [];
  if (kind === 'REQ') return readers.header(name);
  if (kind === undefined) return readers.command?.(command) ?? (() => undefined);
  const [namespace = '', ...path] = name.split(':');
  const read = readers.metadata(namespace, path);
  return (fields) => scalarText(read(fields));
}

const scalarText = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;

type ReadLimit = (fields: RequestFields) => RequestDescriptor['requestLimit'];

/** Reads `limit`, a limit that the request itself has in its metadata. */
function readLimit(block: MappingBlock | undefined, readers: FieldReaders): ReadLimit {
  const source = block?.block('dynamic_metadata');
  const read = source && readMetadataKey(source.block('metadata_key'), readers);
  source?.done();
  block?.done();
  return (fields) => {
    const { requests_per_unit: requests, unit } = Object(read?.(fields)); // a message that senders choose
    const number = Object.hasOwn(requestUnitNumbers, String(unit))
      ? requestUnitNumbers[unit as keyof typeof requestUnitNumbers] // just found
      : undefined;
    if (number === undefined || typeof requests !== 'number' || number === 0) return undefined;
    return decodeRequestLimit(
      { requests_per_unit: Math.trunc(requests) >>> 0, unit: number, unit_multiplier: null },
      'limit',
    );
  };
}

/** Reads an item of `actions`: a mapping with the name of the action as its only key. */
function readAction(item: MappingBlock, readers: FieldReaders, extensions?: ReadAction): Action | undefined {
  const [name = '', ...more] = item.keys;
  const read = Object.hasOwn(actions, name) ? actions[name] : name === 'extension' ? extensions : undefined;
  if (!read || more.length > 0)
    return item.error(
      `expected one action of ${actionNames.join(', ')}, got ${item.keys.map((key) => `'${key}'`).join(' and ') || 'none'}`,
    );
  const block = item.block(name);
  const action = block && read(block, readers);
  block?.done();
  return action;
}

/** An action whose value depends on the request. */
export const valueAction = (
  key: string,
  read: ReadField,
  more: Omit<Action, 'key' | 'value' | 'read'> = {},
): Action => ({
  key,
  value: undefined,
  ...more,
  read: (fields) => {
    const value = read(fields);
    return value === undefined ? (more.skips ? 'skip' : undefined) : { key, value };
  },
});

const clusterEntry = (block: MappingBlock, key: string, read: ReadField): Action =>
  valueAction(block.text('descriptor_key') ?? key, read, { isAlways: true });

/** Reads a header; the path has one spelling, since a client could choose among several otherwise. */
function readHeader(readers: FieldReaders, name: string): ReadField {
  const read = readers.header(name);
  if (name.toLowerCase() !== ':path') return read;
  return (fields) => {
    const path = read(fields);
    return path === undefined ? undefined : normalizePath(path);
  };
}

function requestHeaders(block: MappingBlock, readers: FieldReaders): Action | undefined {
  return extractedValue(block, 'header_name', (name) => [readHeader(readers, name), name.toLowerCase()]);
}

function queryParameters(block: MappingBlock, readers: FieldReaders): Action | undefined {
  return extractedValue(block, 'query_parameter_name', (name) => [queryValue(readers, name), ':path']);
}

/** An action for a value, or a part of it, that the configuration names. */
function extractedValue(
  block: MappingBlock,
  nameKey: string,
  find: (name: string) => readonly [read: ReadField, header: string],
): Action | undefined {
  const name = block.required(nameKey);
  const key = block.required('descriptor_key');
  const skips = block.flag('skip_if_absent', false);
  const extract = extraction(block);
  if (name === undefined || key === undefined) return undefined;
  const [read, header] = find(name);
  return valueAction(key, extract(read), { skips, headers: [header] });
}

/** Reads the first parameter of this name. Envoy decodes `%20`, but takes `+` as it is. */
function queryValue(readers: FieldReaders, parameter: string): ReadField {
  const path = readers.header(':path');
  return (fields) => {
    const [, query = ''] = /\?([^#]*)/.exec(path(fields) ?? '') ?? [];
    for (const pair of query.split('&')) {
      const [, name = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? [];
      if (pair !== '' && decodePercents(name) === parameter) return decodePercents(value);
    }
    return undefined;
  };
}

const decodePercents = (text: string): string =>
  text.replace(/(?:%[0-9a-f]{2})+/gi, (octets) => Buffer.from(octets.replaceAll('%', ''), 'hex').toString());

/**
 * Extracts a part of the value by `regex` and `substitution`, an addition to Envoy's action. The default for
 * `substitution` is the first group; a value that does not match counts as absent.
 */
function extraction(block: MappingBlock): (read: ReadField) => ReadField {
  const regex = block.has('regex') ? block.pattern('regex') : undefined;
  const substitution = block.text('substitution');
  if (!regex) {
    if (substitution !== undefined && !block.has('regex'))
      block.error('expected regex beside substitution, got none', 'substitution');
    return (read) => read;
  }
  const parts = (substitution ?? '\\1').split(/\\(\d)/);
  return (read) => (fields) => {
    const value = read(fields);
    const groups = value === undefined ? undefined : regex.exec(value);
    if (!groups) return undefined;
    if (substitution === undefined) return groups[1] ?? (groups.length > 1 ? undefined : groups[0]);
    return parts.map((part, at) => (at % 2 === 0 ? part : (groups[Number(part)] ?? ''))).join('');
  };
}

/** `v6_prefix_mask_len` is an addition to Envoy's action. */
function remoteAddress(block: MappingBlock, readers: FieldReaders): Action {
  const bits = block.integer('v6_prefix_mask_len', [1, 128]) ?? readers.ipv6Prefix;
  const key = block.text('descriptor_key') ?? 'remote_address';
  return valueAction(key, (fields) => clientAddress(readers.address(fields), bits), { isAlways: true });
}

function maskedRemoteAddress(block: MappingBlock, readers: FieldReaders): Action {
  const v4 = block.integer('v4_prefix_mask_len', [0, 32]) ?? 32;
  const v6 = block.integer('v6_prefix_mask_len', [0, 128]) ?? 128;
  const read: ReadField = (fields) => {
    const address = clientAddress(readers.address(fields));
    return address && networkText(address, address.includes(':') ? v6 : v4);
  };
  return valueAction('masked_remote_address', read, { isAlways: true });
}

function addressMatch(block: MappingBlock, readers: FieldReaders): Action | undefined {
  const matcher = block.block('address_matcher');
  const isInverted = matcher?.flag('invert_match', false) ?? false;
  const ranges = (matcher?.blocks('ranges') ?? []).map((range) => {
    const prefix = range.required('address_prefix') ?? '';
    const bits = range.integer('prefix_len', [0, 128]) ?? 0;
    range.done();
    return { network: networkText(prefix, bits), bits, isV6: prefix.includes(':') };
  });
  matcher?.done();
  const matches = (fields: RequestFields): boolean => {
    const address = clientAddress(readers.address(fields));
    if (address === undefined) return false;
    const isV6 = address.includes(':');
    return ranges.some((one) => one.isV6 === isV6 && networkText(address, one.bits) === one.network) !== isInverted;
  };
  return matchAction(block, readers, 'remote_address_match', matches);
}

function headerValueMatch(block: MappingBlock, readers: FieldReaders): Action | undefined {
  const isExpected = block.flag('expect_match', true);
  const found = block.blocks('headers').flatMap((one) => readMatcher(one, readers) ?? []);
  const matches = (fields: RequestFields): boolean => found.every(({ test }) => test(fields)) === isExpected;
  const action = matchAction(block, readers, 'header_match', matches);
  const isExactPath = isExpected && found.some(({ isExactPath: isOne }) => isOne);
  return action && { ...action, headers: found.map(({ name }) => name), isExactPath };
}

function queryValueMatch(block: MappingBlock, readers: FieldReaders): Action | undefined {
  const isExpected = block.flag('expect_match', true);
  const tests = block.blocks('query_parameters').map((one) => {
    const read = queryValue(readers, one.required('name') ?? '');
    const isPresent = one.has('present_match') ? one.flag('present_match', true) : undefined;
    const test = stringMatch(one.block('string_match'));
    one.done();
    return (fields: RequestFields): boolean => {
      const value = read(fields);
      return isPresent === undefined
        ? value !== undefined && (test?.(value) ?? true)
        : (value !== undefined) === isPresent;
    };
  });
  const matches = (fields: RequestFields): boolean => tests.every((test) => test(fields)) === isExpected;
  const action = matchAction(block, readers, 'query_match', matches);
  return action && { ...action, headers: [':path'] };
}

/** An action whose value is configured, and which drops the descriptor of a request that does not match. */
function matchAction(
  block: MappingBlock,
  readers: FieldReaders,
  usualKey: string,
  matches: (fields: RequestFields) => boolean,
): Action | undefined {
  const value = block.required('descriptor_value');
  const key = block.text('descriptor_key') ?? usualKey;
  if (value === undefined) return undefined;
  // of the actions that match, Envoy formats the value of this one only
  const read = usualKey === 'remote_address_match' && value.includes('%') ? readFormat(value, readers) : undefined;
  const entry = (fields: RequestFields): Entry | undefined => {
    const text = read ? read(fields) : value;
    return text === undefined ? undefined : { key, value: text };
  };
  return {
    key,
    value: read ? undefined : value,
    read: (fields) => (matches(fields) ? entry(fields) : undefined),
  };
}

function genericKey(block: MappingBlock): Action | undefined {
  const value = block.required('descriptor_value');
  const key = block.text('descriptor_key') ?? 'generic_key';
  return value === undefined ? undefined : { key, value, isAlways: true, read: () => ({ key, value }) };
}

/** Reads `metadata`. Envoy sends texts only, and takes an empty one as missing. */
function metadataEntry(block: MappingBlock, readers: FieldReaders): Action | undefined {
  const key = block.required('descriptor_key');
  const usual = block.text('default_value');
  const skips = block.flag('skip_if_absent', false);
  block.text('source');
  const read = readMetadataKey(block.block('metadata_key'), readers);
  if (key === undefined) return undefined;
  const text: ReadField = (fields) => {
    const value = read(fields);
    return typeof value === 'string' && value !== '' ? value : usual;
  };
  return valueAction(key, text, { skips, isAlways: usual !== undefined });
}

function readMetadataKey(block: MappingBlock | undefined, readers: FieldReaders): (fields: RequestFields) => unknown {
  const namespace = block?.required('key') ?? '';
  const path = (block?.blocks('path') ?? []).map((one) => {
    const name = one.required('key') ?? '';
    one.done();
    return name;
  });
  block?.done();
  return readers.metadata(namespace, path);
}

type TextTest = (value: string) => boolean;

/** Reads an item of `headers`. @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto */
function readMatcher(block: MappingBlock, readers: FieldReaders) {
  const name = block.required('name')?.toLowerCase();
  const isInverted = block.flag('invert_match', false);
  const missingIsEmpty = block.flag('treat_missing_header_as_empty', false);
  const isPresent = block.has('present_match') ? block.flag('present_match', true) : undefined;
  const exactText = block.has('exact_match') || block.block('string_match')?.has('exact');
  const tests = [
    stringMatch(block.block('string_match')),
    rangeMatch(block.block('range_match')),
    ...shortTests(block),
  ];
  block.done();
  if (name === undefined) return undefined;
  const test = tests.find((one) => one !== undefined);
  const values = readValues(readers, name);
  return {
    name,
    isExactPath: name === ':path' && exactText === true && !isInverted,
    test(fields: RequestFields): boolean {
      const found = values(fields);
      if (isPresent !== undefined && !missingIsEmpty) return (found.length > 0 === isPresent) !== isInverted;
      if (found.length === 0 && !missingIsEmpty) return isInverted && test === undefined; // no value matches a missing header
      return (found.length === 0 ? [''] : found).some((value) => test?.(value) ?? true) !== isInverted;
    },
  };
}

/** Reads the values of a header, each of which Envoy matches on its own. */
function readValues(readers: FieldReaders, name: string): (fields: RequestFields) => readonly string[] {
  if (readers.headers && name !== ':path') return readers.headers(name);
  const read = readHeader(readers, name);
  return (fields) => {
    const value = read(fields);
    return value === undefined ? [] : [value];
  };
}

/** Reads the forms that predate `string_match` in Envoy, which many configurations still have. */
const shortTests = (block: MappingBlock): readonly (TextTest | undefined)[] => [
  ...kindNames.map((kind) => textTest(block, `${kind}_match`, kind)),
  safeRegex(block.block('safe_regex_match'), false),
];

function stringMatch(block: MappingBlock | undefined): TextTest | undefined {
  if (!block) return undefined;
  const ignoresCase = block.flag('ignore_case', false);
  const tests = [
    ...kindNames.map((kind) => textTest(block, kind, kind, ignoresCase)),
    safeRegex(block.block('safe_regex'), ignoresCase),
  ].filter((test) => test !== undefined);
  block.done();
  if (tests.length === 1) return tests[0];
  return block.error(`expected one of exact, prefix, suffix, contains, safe_regex, got ${tests.length || 'none'}`);
}

const kinds = {
  exact: (value: string, text: string) => value === text,
  prefix: (value: string, text: string) => value.startsWith(text),
  suffix: (value: string, text: string) => value.endsWith(text),
  contains: (value: string, text: string) => value.includes(text),
} as const;
const kindNames = Object.keys(kinds) as readonly (keyof typeof kinds)[]; // exactly its keys

function textTest(
  block: MappingBlock,
  key: string,
  kind: keyof typeof kinds,
  ignoresCase = false,
): TextTest | undefined {
  const text = block.text(key);
  if (text === undefined) return undefined;
  const test = kinds[kind];
  const lower = text.toLowerCase();
  return ignoresCase ? (value) => test(value.toLowerCase(), lower) : (value) => test(value, text);
}

/** Reads a regular expression, which must match the whole value as in Envoy. */
function safeRegex(block: MappingBlock | undefined, ignoresCase: boolean): TextTest | undefined {
  const whole = block?.pattern('regex', { ignoresCase, isWhole: true });
  block?.done();
  return whole && ((value) => whole.exec(value) !== undefined);
}

/** A decimal integer in a range that excludes its end. */
function rangeMatch(block: MappingBlock | undefined): TextTest | undefined {
  if (!block) return undefined;
  const bounds = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] as const;
  const start = block.integer('start', bounds) ?? 0;
  const end = block.integer('end', bounds) ?? 0;
  block.done();
  return (value) => /^[+-]?\d+$/.test(value) && Number(value) >= start && Number(value) < end;
}
