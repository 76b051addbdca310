import { fragment, type Pattern, patterns } from './patterns.ts';

/** A violation of a pattern in a file. */
export interface Finding {
  readonly file: string;
  readonly line: number;
  readonly pattern: Pattern;
  readonly text: string;
}

/** All violations in a file. In test files, only titles are checked. */
export function scan(file: string, content: string): readonly Finding[] {
  if (file.startsWith('test/')) {
    return titlesIn(content).flatMap(({ title, line, isTest }) => {
      const applied = isTest ? [...patterns, fragment] : patterns;
      return applied.flatMap((pattern) => find(file, title, pattern, line));
    });
  }
  const code = file.endsWith('.ts') ? withoutText(content) : '';
  return patterns.flatMap((pattern) => find(file, pattern.in === 'code' ? code : content, pattern));
}

function find(file: string, content: string, pattern: Pattern, firstLine = 1): Finding[] {
  return Array.from(content.matchAll(pattern.regex), ({ index, 0: text }) => ({
    file,
    line: firstLine + newlinesIn(content.slice(0, index)),
    pattern,
    text,
  }));
}

const newlinesIn = (text: string): number => text.split('\n').length - 1;

/** TypeScript with comments and plain strings blanked out. */
export const withoutText = (code: string): string =>
  code.replaceAll(/\/\*.*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/gs, (text) =>
    text.replaceAll(/[^\n]/g, ' '),
  );

/** The titles of tests and groups: the first argument of `test`, `describe`, `test.each(…)` and so on. */
export function titlesIn(code: string) {
  const calls = /(?:\b(test|it|describe)(?:\.(?:skip|only|failing))?|\))\(\s*(['"`])((?:\\.|(?!\2)[^\\])+)\2,/g;
  return Array.from(code.matchAll(calls), ({ index, 0: call, 1: name, 3: title = '' }) => ({
    title,
    line: 1 + newlinesIn(code.slice(0, index + call.indexOf(title))),
    isTest: name === 'test' || name === 'it',
  }));
}

/** The classes, interfaces and types that a file exports under their own names. */
export const exportedTypes = (code: string): readonly string[] =>
  Array.from(code.matchAll(/^export (?:abstract )?(?:class|interface|type|enum) (\w+)/gm), ([, name = '']) => name);

/** The names of types that several files export, with these files. */
export function sharedNames(files: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> {
  const filesByName = new Map<string, string[]>();
  for (const [file, code] of files)
    for (const name of exportedTypes(code)) filesByName.set(name, [...(filesByName.get(name) ?? []), file]);
  return new Map([...filesByName].filter(([, places]) => places.length > 1));
}
