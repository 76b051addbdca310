import { parseYaml, YamlError, type YamlFile } from './yaml.ts';

/** Lines that were left out, counted from 1. */
export interface Gap {
  readonly first: number;
  readonly last: number;
  /** Columns before the text of the first line. */
  readonly indent: number;
}

interface Recovered {
  readonly parsed: YamlFile | undefined;
  readonly errors: readonly YamlError[];
  readonly gaps: readonly Gap[];
}

const MAX_ERRORS = 10;
/** Maximum length of a text that is read again: finding a broken line takes about twenty attempts. */
const MAX_RECOVERED_CHARACTERS = 100_000;

/**
 * Parses a YAML text. Where its syntax is broken, the smallest block with the error is left out and the rest is read,
 * so that one broken line does not hide the mistakes in others.
 */
export function parseAroundErrors(text: string): Recovered {
  const errors: YamlError[] = [];
  const gaps: Gap[] = [];
  let lines: readonly string[] = text.split('\n');
  for (;;) {
    const outcome = tryParse(lines);
    if (!(outcome instanceof YamlError)) return { parsed: outcome, errors, gaps };
    errors.push(outcome);
    const isRead = text.length <= MAX_RECOVERED_CHARACTERS && errors.length < MAX_ERRORS;
    const gap = isRead && outcome.kind !== 'size' ? findGap(lines, outcome) : undefined;
    if (!gap) return { parsed: undefined, errors, gaps };
    gaps.push(gap);
    lines = withoutLines(lines, gap);
  }
}

function tryParse(lines: readonly string[]): YamlFile | YamlError {
  try {
    return parseYaml(lines.join('\n'));
  } catch (error) {
    if (error instanceof YamlError) return error;
    throw error;
  }
}

/** The smallest block without which the text can be read beyond the error; of equal ones, that which takes it further. */
function findGap(lines: readonly string[], error: YamlError): Gap | undefined {
  let found: (Gap & { readonly reach: number }) | undefined;
  const origin = firstBrokenLine(lines, error.line);
  for (const line of new Set([error.line, error.line - 1, origin])) {
    const gap = blockAt(lines, line);
    if (!gap) continue;
    const outcome = tryParse(withoutLines(lines, gap));
    const isSame = outcome instanceof YamlError && outcome.line === error.line && outcome.message === error.message;
    const reach = isBroken(outcome) ? outcome.line : Number.POSITIVE_INFINITY;
    if (isSame || reach <= (line === origin ? line : error.line)) continue;
    const longer = found ? sizeOf(gap) - sizeOf(found) : -1;
    if (longer < 0 || (longer === 0 && found && reach > found.reach)) found = { ...gap, reach };
  }
  return found;
}

const isBroken = (outcome: YamlFile | YamlError): outcome is YamlError =>
  outcome instanceof YamlError && outcome.kind === 'syntax';

const sizeOf = ({ first, last }: Gap): number => last - first;

/** The line of an open quote or bracket may be far above the error: the lines before it can be read without it. */
function firstBrokenLine(lines: readonly string[], errorLine: number): number {
  let [valid, broken] = [0, errorLine];
  while (broken - valid > 1) {
    const middle = Math.floor((valid + broken) / 2);
    if (isBroken(tryParse(lines.slice(0, middle)))) broken = middle;
    else valid = middle;
  }
  return broken;
}

/** A line and what is nested in it; undefined if the line is empty. */
function blockAt(lines: readonly string[], line: number): Gap | undefined {
  const indent = indentOf(lines[line - 1]);
  if (indent === undefined) return undefined;
  let last = line;
  for (let next = line + 1; next <= lines.length; next++) {
    const nested = indentOf(lines[next - 1]);
    if (nested !== undefined && nested <= indent) break;
    if (nested !== undefined) last = next;
  }
  return { first: line, last, indent };
}

/** Columns before the text of a line; undefined if it has none. A tab is wider than any usual indentation. */
function indentOf(line = ''): number | undefined {
  const [space = ''] = /^\s*/.exec(line) ?? [];
  return space.length === line.length ? undefined : space.replaceAll('\t', '        ').length;
}

const withoutLines = (lines: readonly string[], { first, last }: Gap): readonly string[] =>
  lines.map((line, at) => (at + 1 >= first && at + 1 <= last ? '' : line));
