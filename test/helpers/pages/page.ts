import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));

/** A fenced block of a page. */
export interface PageBlock {
  readonly language: string;
  readonly text: string;
  /** The line of its opening fence, from 1. */
  readonly line: number;
}

const FENCED = /^( *)```(\w*)\n(.*?)^\1```$/gms;

const lineAt = (page: string, index: number): number => page.slice(0, index).split('\n').length;

/** The blocks of a page, without the indentation of the list that they are in. */
export const blocksOf = (page: string): readonly PageBlock[] =>
  Array.from(page.matchAll(FENCED), ({ index, 1: indentation = '', 2: language = '', 3: text = '' }) => ({
    language,
    text: indentation === '' ? text : text.replace(new RegExp(`^${indentation}`, 'gm'), ''),
    line: lineAt(page, index),
  }));

export const isShell = ({ language }: PageBlock): boolean => ['sh', 'bash', 'shell', 'console'].includes(language);

/** Code in the sentences and tables of a page. */
export interface InlineCode {
  readonly text: string;
  readonly line: number;
}

export function inlineCodeOf(page: string): readonly InlineCode[] {
  const prose = page.replace(FENCED, (block) => block.replace(/[^\n]/g, ''));
  return Array.from(prose.matchAll(/(?<!`)`([^`]+)`(?!`)/g), ({ index, 1: text = '' }) => ({
    text: text.replaceAll('\\|', '|').replace(/\s+/g, ' '),
    line: lineAt(prose, index),
  }));
}

/** The files that a page shows: YAML blocks whose first line is a comment with the file's name. */
export const filesOf = (page: string): ReadonlyMap<string, string> =>
  new Map(
    blocksOf(page).flatMap(({ language, text }) => {
      const [, name] = /^# ([\w-]+\.yaml)$/m.exec(text.slice(0, text.indexOf('\n'))) ?? [];
      return language === 'yaml' && name !== undefined ? [[name, text] as const] : [];
    }),
  );

/** The rule files that a page shows, in order. */
export const rulesOf = (page: string): readonly string[] =>
  blocksOf(page)
    .filter(({ language, text }) => language === 'yaml' && /^descriptors:$/m.test(text))
    .map(({ text }) => text);

export const textOf = (path: string): string => readFileSync(join(PROJECT, path), 'utf8');

/** The pages that readers follow, by path. */
export const pages: readonly string[] = [
  ...['README.md', 'CONTRIBUTING.md', 'client/README.md'],
  ...readdirSync(join(PROJECT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => join('docs', path))
    .sort(),
];
