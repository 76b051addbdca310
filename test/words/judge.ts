import type { Exception } from './exceptions.ts';
import type { Finding } from './scan.ts';

/**
 * Compares findings with the exceptions.
 *
 * @param pending  per folder, or `folder*` prefix, and pattern: the number of findings that may remain
 * @returns what to fix, one line each; empty: the check passes
 */
export function judge(
  findings: readonly Finding[],
  exceptions: readonly Exception[],
  pending: Readonly<Record<string, Readonly<Record<string, number>>>>,
): readonly string[] {
  const problems: string[] = [];
  let rest = findings;
  for (const { pattern, files } of exceptions) {
    for (const [file, allowed] of Object.entries(files)) {
      const found = rest.filter((finding) => finding.file === file && finding.pattern.name === pattern);
      rest = rest.filter((finding) => !found.includes(finding));
      if (found.length > allowed) problems.push(...found.map(describe), `${file}: at most ${allowed} are allowed`);
      if (found.length < allowed)
        problems.push(`${file}: '${pattern}' is allowed ${allowed} times, found ${found.length}: lower the count`);
    }
  }
  for (const [folder, counts] of Object.entries(pending)) {
    for (const [pattern, allowed] of Object.entries(counts)) {
      const found = rest.filter((finding) => finding.file.startsWith(folder) && finding.pattern.name === pattern);
      rest = rest.filter((finding) => !found.includes(finding));
      if (found.length > allowed)
        problems.push(...found.map(describe), `${folder}: at most ${allowed} of '${pattern}' may remain`);
    }
  }
  return [...problems, ...rest.map(describe)];
}

const describe = ({ file, line, pattern, text }: Finding): string =>
  `${file}:${line}: '${text}' (${pattern.name}): write ${pattern.instead}`;
