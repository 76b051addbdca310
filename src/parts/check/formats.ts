import { relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { printableJson, printableLines } from '../../base/printable.ts';
import { formatLine, type Problem } from '../../engine/rules/read/problem.ts';
import type { Checked } from './check.ts';

/** Formats the whole standard output of `weir check`. */
type Format = (checked: Checked, context: FormatContext) => string;

interface FormatContext {
  readonly version: string;
  /** Text of a line of a file; undefined if it cannot be read. */
  readonly lineOf: (file: string, line: number) => string | undefined;
  /** Directory that paths are relative to. */
  readonly cwd: string;
}

/** Summarizes as `all right: 2 domain(s), 7 rule(s)`, or `1 error(s), 2 warning(s)`. */
export function summarize({ isValid, problems, counts }: Checked): string {
  const warnings = problems.filter(({ severity }) => severity === 'warning').length;
  if (!isValid || !counts) return `${problems.length - warnings} error(s), ${warnings} warning(s)`;
  const overlaid = counts.overlaid === undefined ? '' : `, ${counts.overlaid} overlaid`;
  const more = warnings > 0 ? `, ${warnings} warning(s)` : '';
  return `all right: ${counts.domains} domain(s), ${counts.rules} rule(s)${overlaid}${more}`;
}

/** Human-readable format of each problem with its line, and a caret under its start. */
const text: Format = (checked, context) => {
  const { isValid, problems, notes } = checked;
  const lines = problems.flatMap((problem) => [describe(problem), ...excerpt(problem, context)]);
  const noteLines = notes.map((note) => `note: ${note}`);
  return printableLines([...lines, ...(isValid ? [...noteLines, summarize(checked)] : [])].join('\n'));
};

/** `rules.yaml:12:7: warning: descriptors[2].shadow_mode: …` */
function describe(problem: Problem): string {
  const { column, path, severity, message } = problem;
  const place = `${formatLine(problem)}${column === undefined ? '' : `:${column}`}`;
  return `${place}: ${severity === 'warning' ? 'warning: ' : ''}${path === '' ? '' : `${path}: `}${message}`;
}

/** Maximum length of an excerpt; longer lines are cut around the caret. */
const MAX_EXCERPT_CHARACTERS = 120;

function excerpt({ file, line, column }: Problem, { lineOf }: FormatContext): readonly string[] {
  if (line === undefined || column === undefined) return [];
  const written = lineOf(file, line);
  if (written === undefined || written.trim() === '') return [];
  const from = Math.max(0, column - MAX_EXCERPT_CHARACTERS / 2);
  const shown = written.slice(from, from + MAX_EXCERPT_CHARACTERS).replaceAll('\t', ' ');
  const number = String(line).padStart(5);
  return [`${number} | ${shown}`, `${' '.repeat(number.length)} | ${' '.repeat(column - 1 - from)}^`];
}

const json: Format = ({ isValid, problems, notes, counts }) => {
  const count = (counted: Problem['severity']): number =>
    problems.filter(({ severity }) => severity === counted).length;
  const summary = { ...counts, errors: count('error'), warnings: count('warning') };
  return printableJson({ ok: isValid, summary, problems, notes });
};

/**
 * Workflow commands, which GitHub shows beside the lines of a change.
 *
 * @see https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
 */
const github: Format = ({ problems }, { cwd }) =>
  printableLines(
    problems
      .map(({ file, line, column, path, severity, message }) => {
        const properties = Object.entries({ file: fromHere(file, cwd), line, col: column, title: 'weir check' })
          .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${escapedProperty(String(value))}`]))
          .join(',');
        return `::${severity} ${properties}::${escapedData(path === '' ? message : `${path}: ${message}`)}`;
      })
      .join('\n'),
  );

const escapedData = (data: string): string =>
  data.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
const escapedProperty = (value: string): string => escapedData(value).replaceAll(':', '%3A').replaceAll(',', '%2C');

/** @see https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html */
const sarif: Format = ({ problems }, { version, cwd }) => {
  const rules = (['error', 'warning'] as const).map((severity) => ({
    id: `rules/${severity}`,
    name: severity === 'error' ? 'InvalidRules' : 'SuspiciousRules',
    shortDescription: { text: descriptions[severity] },
    defaultConfiguration: { level: severity },
  }));
  const results = problems.map(({ file, line, column, path, severity, message }) => ({
    ruleId: `rules/${severity}`,
    ruleIndex: severity === 'error' ? 0 : 1,
    level: severity,
    message: { text: path === '' ? message : `${path}: ${message}` },
    ...(line !== undefined && {
      locations: [
        {
          physicalLocation: {
            artifactLocation: { uri: toUri(file, cwd) },
            region: { startLine: line, ...(column !== undefined && { startColumn: column }) },
          },
        },
      ],
    }),
  }));
  const driver = { name: 'weir check', semanticVersion: version, rules };
  return printableJson({
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [{ tool: { driver }, columnKind: 'utf16CodeUnits', results }],
  });
};

const descriptions = {
  error: 'The service rejects these rules.',
  warning: 'The service accepts these rules, but they are probably a mistake.',
} as const;

/** Makes a path relative if possible, with slashes, since code hosts name files of a repository in that form. */
function fromHere(file: string, cwd: string): string {
  const path = relative(cwd, resolve(cwd, file));
  return (path.startsWith('..') ? file : path).split(sep).join('/');
}

function toUri(file: string, cwd: string): string {
  const path = fromHere(file, cwd);
  return path.startsWith('/') ? pathToFileURL(path).href : path.split('/').map(encodeURIComponent).join('/');
}

export const formats = { text, json, github, sarif } as const satisfies Readonly<Record<string, Format>>;
