import { type FieldNames, headerReader, type LogFields } from '../readers/fields.ts';
import type { MappingBlock } from './mapping-block.ts';

type Matcher = (fields: LogFields) => boolean;
type TextTest = (value: string) => boolean;

/** Reads `headers`: all of them must match. */
export const readMatchers = (block: MappingBlock, names: FieldNames): readonly Matcher[] =>
  block.blocks('headers').flatMap((one) => {
    const matcher = readMatcher(one, names);
    one.done();
    return matcher ? [matcher] : [];
  });

/** @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto */
function readMatcher(block: MappingBlock, names: FieldNames): Matcher | undefined {
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
  const read = headerReader(name, names);
  if (isPresent !== undefined && !missingIsEmpty)
    return (fields) => ((read(fields) !== undefined) === isPresent) !== isInverted;
  return (fields) => {
    const value = read(fields) ?? (missingIsEmpty ? '' : undefined);
    if (value === undefined) return isInverted && test === undefined; // no value matches a missing header
    return (test?.(value) ?? true) !== isInverted;
  };
}

/** The forms that predate `string_match` in Envoy, which many configurations still have. */
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

/** As in Envoy, the whole value must match. */
function safeRegex(block: MappingBlock | undefined, ignoresCase: boolean): TextTest | undefined {
  const regex = block?.pattern('regex', ignoresCase ? 'i' : '');
  block?.done();
  if (!regex) return undefined;
  const whole = new RegExp(`^(?:${regex.source})$`, `${regex.flags}s`);
  return (value) => whole.test(value);
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
