import type { RateLimitRequest, RequestDescriptor } from '../../../engine/decide/decide.ts';
import type { Entry } from '../../../engine/rules/match/match.ts';
import { type Problem, Problems } from '../../../engine/rules/read/problem.ts';
import { parseYaml, YamlError } from '../../../engine/rules/read/yaml.ts';
import { FieldReaders, type LogFields, toText } from '../readers/fields.ts';
import { parseTimeMs } from '../readers/times.ts';
import type { RecordedRequest, ReplayedCode } from '../request.ts';
import { type Action, readAction } from './actions.ts';
import { MappingBlock } from './mapping-block.ts';

/** Converts the fields of an access log line to the request that a proxy would have sent. */
export interface Mapping {
  readonly domain: string;
  /**
   * Converts a line. @returns a text with the error, or undefined if there are no descriptors, so that a proxy sends no
   * request
   */
  request(fields: LogFields): RecordedRequest | string | undefined;
}

/** Reads the text of a mapping file. */
export function parseMapping(
  file: string,
  text: string,
): { readonly mapping: Mapping } | { readonly problems: readonly Problem[] } {
  const problems = new Problems();
  const mapping = readMapping(file, text, problems);
  return mapping && !problems.hasErrors ? { mapping } : { problems: problems.all };
}

function readMapping(file: string, text: string, problems: Problems): Mapping | undefined {
  try {
    const { root } = parseYaml(text);
    const place = { file, line: root?.line ?? 1, path: '' };
    return root
      ? buildMapping(new MappingBlock(root, place, problems))
      : problems.error(place, 'expected a mapping, got nothing');
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    return problems.error({ file, line: error.line, column: error.column, path: '' }, `no YAML: ${error.message}`);
  }
}

function buildMapping(block: MappingBlock): Mapping | undefined {
  const domain = block.required('domain');
  const readers = fieldReaders(block.block('fields'));
  const label = readLabel(block.block('label'));
  const descriptors = block.blocks('rate_limits').map((one) => readDescriptor(one, readers));
  block.done();
  return domain === undefined ? undefined : requestMapping(domain, descriptors, { readers, label });
}

type ReadDescriptor = (fields: LogFields) => RequestDescriptor | undefined;
type ReadLabel = (fields: LogFields) => RecordedRequest['label'];

function requestMapping(
  domain: string,
  reads: readonly ReadDescriptor[],
  { readers, label }: { readonly readers: FieldReaders; readonly label: ReadLabel },
): Mapping {
  return {
    domain,
    request(fields) {
      const time = readers.time(fields);
      const timeMs = parseTimeMs(time);
      if (timeMs === undefined) return time === undefined ? 'no time' : `no time: ${JSON.stringify(time)}`;
      const descriptors: RequestDescriptor[] = [];
      for (const read of reads) {
        const descriptor = read(fields);
        if (descriptor) descriptors.push(descriptor);
      }
      if (descriptors.length === 0) return undefined;
      const request: RateLimitRequest = { domain, descriptors };
      const expected = label(fields);
      const code = readAnswer(readers.status(fields), fields);
      return {
        timeMs,
        request,
        ...(code && { answer: { code } }),
        ...(expected && { label: expected }),
      };
    },
  };
}

/**
 * The answer of the rate limit service, if the log has Envoy's reason for it; a status of 429 alone may come from the
 * upstream.
 */
function readAnswer(
  status: string | undefined,
  { response_code_details: details, response_flags: flags }: LogFields,
): ReplayedCode | undefined {
  const reason = toText(details);
  if (reason === undefined) return typeof flags === 'string' && /\bRL\b/.test(flags) ? 'OVER_LIMIT' : undefined;
  if (reason === 'request_rate_limited') return 'OVER_LIMIT';
  return status !== undefined && status !== '429' ? 'OK' : undefined;
}

function readDescriptor(block: MappingBlock, readers: FieldReaders): ReadDescriptor {
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
function createEntries(actions: readonly Action[], fields: LogFields): readonly Entry[] | undefined {
  const entries: Entry[] = [];
  for (const action of actions) {
    const entry = action(fields);
    if (entry === undefined) return undefined;
    if (entry !== 'skip') entries.push(entry);
  }
  return entries.length === 0 ? undefined : entries;
}

/** @param block  names of fields that differ from the standard ones */
function fieldReaders(block: MappingBlock | undefined): FieldReaders {
  const [time, remoteAddress, status] = ['time', 'remote_address', 'status'].map((key) => block?.text(key));
  const headers = block?.block('headers');
  const named = headers?.keys.map((name) => [name.toLowerCase(), headers.text(name) ?? name] as const) ?? [];
  block?.done();
  return new FieldReaders({ time, remoteAddress, status, headers: new Map(named) });
}

/** Reads the column that labels which requests should pass. */
function readLabel(block: MappingBlock | undefined): ReadLabel {
  if (!block) return () => undefined;
  const field = block.required('field') ?? '';
  const [allow, refuse] = [new Set(block.texts('allow')), new Set(block.texts('refuse'))];
  if (refuse.size === 0) block.error('expected refuse, the values of requests that ought to be refused, got none');
  block.done();
  return (fields) => {
    const value = toText(fields[field]);
    if (value === undefined) return undefined;
    if (refuse.has(value)) return 'refuse';
    return allow.size === 0 || allow.has(value) ? 'allow' : undefined;
  };
}
