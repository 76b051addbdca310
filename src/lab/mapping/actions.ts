import { clientAddress, networkText } from '../../base/address.ts';
import type { RequestDescriptor } from '../../engine/decide/decide.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
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
  /** A request header, or a pseudo-header such as `:path`. */
  header(name: string): ReadField;
  /** The client's address, in any spelling. */
  readonly address: ReadField;
  /** The leading bits by which `remote_address` counts IPv6 addresses unless it says otherwise. */
  readonly ipv6Prefix: number;
  /** The upstream cluster. */
  readonly cluster: ReadField;
}

/**
 * Returns the entry that an action adds, `skip` to add none but keep the others, or undefined to drop the descriptor.
 */
type Action = (fields: RequestFields) => Entry | 'skip' | undefined;

/**
 * Envoy's actions, by name.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto
 */
const actions: Readonly<Record<string, (block: MappingBlock, readers: FieldReaders) => Action | undefined>> = {
  request_headers: requestHeaders,
  query_parameters: queryParameters,
  remote_address: remoteAddress,
  masked_remote_address: maskedRemoteAddress,
  header_value_match: headerValueMatch,
  generic_key: genericKey,
  destination_cluster: (block, readers) =>
    createEntry(block.text('descriptor_key') ?? 'destination_cluster', readers.cluster),
};

export const actionNames = Object.keys(actions);

/** Reads the descriptor of a request; undefined if there is none. */
export type ReadDescriptor = (fields: RequestFields) => RequestDescriptor | undefined;

/** Reads an item of `rate_limits`. */
export function readDescriptor(block: MappingBlock, readers: FieldReaders): ReadDescriptor {
  const actions = block.blocks('actions').flatMap((item) => readAction(item, readers) ?? []);
  const addend = block.block('hits_addend');
  const hits = addend?.integer('number', [0, 1_000_000_000]) ?? 1;
  addend?.done();
  block.done();
  return (fields) => {
    const entries = createEntries(actions, fields);
    return entries && { entries, requestLimit: undefined, hits };
  };
}

/**
 * Creates the entries of a descriptor. As in Envoy, an action without a value drops the descriptor; one without entries
 * is dropped too.
 */
function createEntries(actions: readonly Action[], fields: RequestFields): readonly Entry[] | undefined {
  const entries: Entry[] = [];
  for (const action of actions) {
    const entry = action(fields);
    if (entry === undefined) return undefined;
    if (entry !== 'skip') entries.push(entry);
  }
  return entries.length === 0 ? undefined : entries;
}

/** Reads an item of `actions`: a mapping with the name of the action as its only key. */
function readAction(item: MappingBlock, readers: FieldReaders): Action | undefined {
  const [name = '', ...more] = item.keys;
  const read = Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (!read || more.length > 0)
    return item.error(
      `expected one action of ${actionNames.join(', ')}, got ${item.keys.map((key) => `'${key}'`).join(' and ') || 'none'}`,
    );
  const block = item.block(name);
  const action = block && read(block, readers);
  block?.done();
  return action;
}

const createEntry =
  (key: string, read: ReadField, missing: 'skip' | undefined = undefined): Action =>
  (fields) => {
    const value = read(fields);
    return value === undefined ? missing : { key, value };
  };

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
  const header = block.required('header_name');
  const key = block.required('descriptor_key');
  const missing = block.flag('skip_if_absent', false) ? 'skip' : undefined;
  const extract = extraction(block);
  if (header === undefined || key === undefined) return undefined;
  return createEntry(key, extract(readHeader(readers, header)), missing);
}

function queryParameters(block: MappingBlock, readers: FieldReaders): Action | undefined {
  const parameter = block.required('query_parameter_name');
  const key = block.required('descriptor_key');
  const missing = block.flag('skip_if_absent', false) ? 'skip' : undefined;
  const extract = extraction(block);
  if (parameter === undefined || key === undefined) return undefined;
  const path = readers.header(':path');
  const queryParameter: ReadField = (fields) => {
    const [, query] = /\?([^#]*)/.exec(path(fields) ?? '') ?? [];
    return query === undefined ? undefined : (new URLSearchParams(query).get(parameter) ?? undefined);
  };
  return createEntry(key, extract(queryParameter), missing);
}

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
  return createEntry(key, (fields) => clientAddress(readers.address(fields), bits));
}

function maskedRemoteAddress(block: MappingBlock, readers: FieldReaders): Action {
  const v4 = block.integer('v4_prefix_mask_len', [0, 32]) ?? 32;
  const v6 = block.integer('v6_prefix_mask_len', [0, 128]) ?? 128;
  return createEntry('masked_remote_address', (fields) => {
    const address = clientAddress(readers.address(fields));
    return address && networkText(address, address.includes(':') ? v6 : v4);
  });
}

function headerValueMatch(block: MappingBlock, readers: FieldReaders): Action | undefined {
  const value = block.required('descriptor_value');
  const key = block.text('descriptor_key') ?? 'header_match';
  const isExpected = block.flag('expect_match', true);
  const matchers = readMatchers(block, readers);
  if (value === undefined) return undefined;
  const entry: Entry = { key, value };
  return (fields) => (matchers.every((matches) => matches(fields)) === isExpected ? entry : undefined);
}

function genericKey(block: MappingBlock): Action | undefined {
  const value = block.required('descriptor_value');
  const key = block.text('descriptor_key') ?? 'generic_key';
  if (value === undefined) return undefined;
  const entry: Entry = { key, value };
  return () => entry;
}

type Matcher = (fields: RequestFields) => boolean;
type TextTest = (value: string) => boolean;

/** Reads `headers`, all of which must match. */
const readMatchers = (block: MappingBlock, readers: FieldReaders): readonly Matcher[] =>
  block.blocks('headers').flatMap((one) => {
    const matcher = readMatcher(one, readers);
    one.done();
    return matcher ? [matcher] : [];
  });

/** @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto */
function readMatcher(block: MappingBlock, readers: FieldReaders): Matcher | undefined {
  const name = block.required('name');
  const isInverted = block.flag('invert_match', false);
  const missingIsEmpty = block.flag('treat_missing_header_as_empty', false);
  const isPresent = block.has('present_match') ? block.flag('present_match', true) : undefined;
  const tests = [
    stringMatch(block.block('string_match')),
    rangeMatch(block.block('range_match')),
    ...shortTests(block),
  ];
  const test = tests.find((one) => one !== undefined);
  if (name === undefined) return undefined;
  const read = readHeader(readers, name);
  if (isPresent !== undefined && !missingIsEmpty)
    return (fields) => ((read(fields) !== undefined) === isPresent) !== isInverted;
  return (fields) => {
    const value = read(fields) ?? (missingIsEmpty ? '' : undefined);
    if (value === undefined) return isInverted && test === undefined; // no value matches a missing header
    return (test?.(value) ?? true) !== isInverted;
  };
}

/** Reads the forms that predate `string_match` in Envoy, which many configurations still have. */
const shortTests = (block: MappingBlock): readonly (TextTest | undefined)[] => [
  textTest(block, 'exact_match', 'exact'),
  textTest(block, 'prefix_match', 'prefix'),
  textTest(block, 'suffix_match', 'suffix'),
  textTest(block, 'contains_match', 'contains'),
  safeRegex(block.block('safe_regex_match'), false),
];

function stringMatch(block: MappingBlock | undefined): TextTest | undefined {
  if (!block) return undefined;
  const ignoresCase = block.flag('ignore_case', false);
  const tests = [
    ...(['exact', 'prefix', 'suffix', 'contains'] as const).map((kind) => textTest(block, kind, kind, ignoresCase)),
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
