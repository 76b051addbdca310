import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadRules } from '../../src/engine/rules/reload/load.ts';
import { temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- rule-files

Measures the time to load a rule file, and whether a file four times as large takes four times as long.
Takes about a minute; each row is printed when it is done.
`;

/** Makes a file of about `length` characters. */
type Make = (length: number) => string;

const FIRST_LENGTH = 250_000;
const GROWTH = 4;
const ROUNDS = 3;

const HEAD = 'domain: d\ndescriptors:\n';
const LIMIT = '    rate_limit: { unit: day, requests_per_unit: 1 }\n';

/** Numbered lines, `length` characters in total. */
function lines(length: number, line: (at: number) => string): string {
  const all: string[] = [];
  for (let at = 0, written = 0; written < length; at++) written += all[all.push(line(at)) - 1]?.length ?? 0;
  return all.join('');
}

const cases: Readonly<Record<string, Make>> = {
  rules: (length) => HEAD + lines(length, (at) => `  - key: k${at}\n${LIMIT}`),
  'rules, CRLF': (length) => (HEAD + lines(length, (at) => `  - key: k${at}\n${LIMIT}`)).replaceAll('\n', '\r\n'),
  'values of one key': (length) => HEAD + lines(length, (at) => `  - key: k\n    value: v${at}\n${LIMIT}`),
  'values with a `*` that begin alike': (length) =>
    HEAD + lines(length, (at) => `  - key: k\n    value: "*${at}x"\n${LIMIT}`),
  'one node twice and again': (length) => HEAD + lines(length, () => `  - key: k\n${LIMIT}`),
  'unknown keys': (length) => lines(length, (at) => `k${at}: v\n`),
  'a long key': (length) => `${HEAD}  - key: ${'x'.repeat(length)}\n${LIMIT}`,
  'a long comment': (length) => `# ${'x'.repeat(length)}\n${HEAD}`,
  'blank lines': (length) => `domain: d${'\n'.repeat(length)}`,
  'anchors and aliases': (length) => lines(length, (at) => `a${at}: &a${at} b\nb${at}: *a${at}\n`),
  'a large mapping, merged into others': (length) =>
    `x: &x {${lines(length / 2, (at) => `k${at}: v, `)}}\ny:\n${lines(length / 2, () => '  - {<<: *x}\n')}`,
  'a chain of aliases': (length) => `- &a0 [a]\n${lines(length, (at) => `- &a${at + 1} [*a${at}]\n`)}`,
  'a list in brackets, tabs between its items': (length) =>
    `descriptors: [${lines(length, (at) => `{key:\tk${at}},\t`)}]\n`,
  'a list in brackets, tabs in quotes': (length) => `descriptors: ["${',\t'.repeat(length / 2)}",\tb]\n`,
  'a list in brackets, its lines at the left': (length) =>
    `descriptors: [\n${lines(length, (at) => `{key: k${at}},\n`)}]\ndomain: d\n`,
  'many braces over two lines each': (length) => HEAD + lines(length, (at) => `  - {key: k${at},\nvalue: v}\n`),
  'brackets in brackets': (length) => HEAD + lines(length, () => `  - ${'['.repeat(90)}${']'.repeat(90)}\n`),
  'a text over many lines at the left': (length) => `domain: "${'d\n'.repeat(length / 2)}"\n`,
};

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  await withCleanup(async (onEnd) => {
    const path = join(temporaryFolder('rule-files', onEnd), 'rules.yaml');
    console.log(tableHead(['a file of', 'ms for 250 kB', 'ms for 1 MB', 'times']));
    for (const [name, make] of Object.entries(cases)) {
      const [first = 0, second = 0] = [FIRST_LENGTH, FIRST_LENGTH * GROWTH].map((length) => loadMs(path, make(length)));
      console.log(tableRow([name, first.toFixed(0), second.toFixed(0), (second / first).toFixed(1)]));
    }
  });
}

/** Processor time of the fastest round. */
function loadMs(path: string, text: string): number {
  writeFileSync(path, text);
  const rounds = Array.from({ length: ROUNDS }, () => {
    const before = process.cpuUsage();
    loadRules([{ path, name: 'rules.yaml' }], { mergeDomains: false });
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...rounds);
}
