import type { RateLimitRequest } from '../../../engine/decide/decide.ts';
import { type Problem, Problems } from '../../../engine/rules/read/problem.ts';
import { readDescriptors, readLimitItems } from '../../lab/mapping/actions.ts';
import { compileRegExp, type MappingBlock, parseBlock } from '../../lab/mapping/mapping-block.ts';
import { type LogFields, LogReaders, toText } from '../readers/fields.ts';
import { parseTimeMs } from '../readers/times.ts';
import type { RecordedRequest, ReplayedCode } from '../request.ts';

/** Converts the fields of an access log line to the request that a proxy would have sent. */
export type Mapping = NonNullable<ReturnType<typeof readMapping>>;

/** Reads the text of a mapping file. */
export function parseMapping(
  file: string,
  text: string,
): { readonly mapping: Mapping } | { readonly problems: readonly Problem[] } {
  const problems = new Problems();
  const block = parseBlock(file, text, { problems, compile: compileRegExp });
  const mapping = block && readMapping(block);
  return mapping && !problems.hasErrors ? { mapping } : { problems: problems.all };
}

type ReadLabel = (fields: LogFields) => RecordedRequest['label'];

function readMapping(block: MappingBlock) {
  const domain = block.required('domain');
  const readers = fieldReaders(block.block('fields'));
  const label = readLabel(block.block('label'));
  const { items, reports } = readLimitItems(block, readers);
  block.done();
  if (domain === undefined) return undefined;
  return {
    domain,
    /**
     * Converts a line. @returns a text with the error, or undefined if there are no descriptors, so that a proxy sends no
     * request
     */
    request(fields: LogFields): RecordedRequest | string | undefined {
      const time = readers.time(fields);
      const timeMs = parseTimeMs(time);
      if (timeMs === undefined) return time === undefined ? 'no time' : `no time: ${JSON.stringify(time)}`;
      const descriptors = readDescriptors(items, fields);
      if (descriptors.length === 0) return undefined;
      const request: RateLimitRequest = { domain, descriptors };
      const expected = label(fields);
      const code = readAnswer(readers.status(fields), fields);
      const reported = readDescriptors(reports, fields);
      return {
        timeMs,
        request,
        ...(code && { answer: { code } }),
        ...(reported.length > 0 && { report: { domain, descriptors: reported } }),
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

/** @param block  names of fields that differ from the standard ones */
function fieldReaders(block: MappingBlock | undefined): LogReaders {
  const [time, remoteAddress, status] = ['time', 'remote_address', 'status'].map((key) => block?.text(key));
  const headers = block?.block('headers');
  const named = headers?.keys.map((name) => [name.toLowerCase(), headers.text(name) ?? name] as const) ?? [];
  block?.done();
  return new LogReaders({ time, remoteAddress, status, headers: new Map(named) });
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
