import { readFile } from 'node:fs/promises';
import type { JsonOverload } from '../../edge/http/api.ts';
import type { RlsService } from '../../edge/rls/service.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import { loadPatterns } from '../../operate/observe/mogrifier.ts';
import { start } from '../../serve/parts/start-up.ts';
import type { Compile } from '../lab/mapping/mapping-block.ts';
import { type AuthzMapping, authzRoute, parseAuthzMapping } from './route.ts';

/**
 * Opens `/authz`.
 *
 * @param path  of its mapping file
 * @throws CannotStart if that cannot be read, or is invalid
 */
export const openAuthz = async (path: string, service: RlsService, overload: JsonOverload) =>
  ['/authz', authzRoute(await readMapping(path), service, overload)] as const;

const readMapping = (path: string): Promise<AuthzMapping> =>
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
