import { readFile } from 'node:fs/promises';
import { type AuthzMapping, parseAuthzMapping } from '../../edge/http/authz.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import type { Compile } from '../../lab/mapping/mapping-block.ts';
import { loadPatterns } from '../../operate/observe/mogrifier.ts';
import { start } from '../parts/start-up.ts';

/**
 * Reads the mapping file of `/authz`.
 *
 * @throws CannotStart if it cannot be read, or is invalid
 */
export const openAuthz = (path: string): Promise<AuthzMapping> =>
  start('AUTHZ_MAPPING', `cannot use '${path}'`, async () => {
    const parsed = parseAuthzMapping(path, await readFile(path, 'utf8'), await linearPatterns());
    if ('mapping' in parsed) return parsed.mapping;
    throw new Error(parsed.problems.map(formatProblem).join('\n'));
  });

/** Patterns of RE2, which take time proportional to the text, since clients choose it. */
async function linearPatterns(): Promise<Compile> {
  const compile = await loadPatterns();
  return (source, { ignoresCase = false, isWhole = false }) => {
    compile(source); // alone, so that its error is not about what is added
    const pattern = compile(`${ignoresCase ? '(?i)' : ''}${isWhole ? `(?s)^(?:${source})$` : source}`);
    return {
      exec(text) {
        const matcher = pattern.matcher(text);
        if (!matcher.find()) return undefined;
        return Array.from({ length: matcher.groupCount() + 1 }, (_, group) => matcher.group(group) ?? undefined);
      },
    };
  };
}
