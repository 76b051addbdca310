import type { Entry } from '../../../engine/rules/match/match.ts';
import {
  addressReader,
  clusterReader,
  type FieldNames,
  headerReader,
  type LogFields,
  type ReadField,
} from '../readers/fields.ts';
import type { MappingBlock } from './mapping-block.ts';
import { masked } from './mask.ts';
import { readMatchers } from './matchers.ts';

/** The entry that an action adds; `skip`: none, others remain; undefined: the request does not have this descriptor. */
export type Action = (fields: LogFields) => Entry | 'skip' | undefined;

/**
 * Envoy's actions, by name.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto
 */
const actions: Readonly<Record<string, (block: MappingBlock, names: FieldNames) => Action | undefined>> = {
  request_headers: requestHeaders,
  query_parameters: queryParameters,
  remote_address: (block, names) => entryOf(block.text('descriptor_key') ?? 'remote_address', addressReader(names)),
  masked_remote_address: maskedRemoteAddress,
  header_value_match: headerValueMatch,
  generic_key: genericKey,
  destination_cluster: (block) => entryOf(block.text('descriptor_key') ?? 'destination_cluster', clusterReader()),
};

export const actionNames = Object.keys(actions);

/** Reads an item of `actions`: a mapping with the name of the action as its only key. */
export function readAction(item: MappingBlock, names: FieldNames): Action | undefined {
  const [name = '', ...more] = item.keys;
  const read = Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (!read || more.length > 0)
    return item.error(
      `expected one action of ${actionNames.join(', ')}, got ${item.keys.map((key) => `'${key}'`).join(' and ') || 'none'}`,
    );
  const block = item.block(name);
  const action = block && read(block, names);
  block?.done();
  return action;
}

const entryOf =
  (key: string, read: ReadField, missing: 'skip' | undefined = undefined): Action =>
  (fields) => {
    const value = read(fields);
    return value === undefined ? missing : { key, value };
  };

function requestHeaders(block: MappingBlock, names: FieldNames): Action | undefined {
  const header = block.required('header_name');
  const key = block.required('descriptor_key');
  const missing = block.flag('skip_if_absent', false) ? 'skip' : undefined;
  const extract = extraction(block);
  if (header === undefined || key === undefined) return undefined;
  return entryOf(key, extract(headerReader(header, names)), missing);
}

function queryParameters(block: MappingBlock, names: FieldNames): Action | undefined {
  const parameter = block.required('query_parameter_name');
  const key = block.required('descriptor_key');
  const missing = block.flag('skip_if_absent', false) ? 'skip' : undefined;
  const extract = extraction(block);
  if (parameter === undefined || key === undefined) return undefined;
  const path = headerReader(':path', names);
  const parameterOf: ReadField = (fields) => {
    const query = path(fields)?.split('?', 2)[1];
    return query === undefined ? undefined : (new URLSearchParams(query).get(parameter) ?? undefined);
  };
  return entryOf(key, extract(parameterOf), missing);
}

/**
 * `regex` and `substitution`, an addition to Envoy's action: extracts a part of the value. Without `substitution`, it
 * is the first group; a value that does not match counts as absent.
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

function maskedRemoteAddress(block: MappingBlock, names: FieldNames): Action {
  const v4 = block.integer('v4_prefix_mask_len', [0, 32]) ?? 32;
  const v6 = block.integer('v6_prefix_mask_len', [0, 128]) ?? 128;
  const read = addressReader(names);
  return (fields) => {
    const address = read(fields);
    const value = address === undefined ? undefined : masked(address, v4, v6);
    return value === undefined ? undefined : { key: 'masked_remote_address', value };
  };
}

function headerValueMatch(block: MappingBlock, names: FieldNames): Action | undefined {
  const value = block.required('descriptor_value');
  const key = block.text('descriptor_key') ?? 'header_match';
  const isExpected = block.flag('expect_match', true);
  const matchers = readMatchers(block, names);
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
