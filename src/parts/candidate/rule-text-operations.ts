import { readFile, stat } from 'node:fs/promises';
import { fields } from '../../base/shape.ts';
import { listedRules } from '../../engine/rules/match/tree.ts';
import { countProblems, type Problem } from '../../engine/rules/read/problem.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { domain } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { POSTED_NAME } from '../../operate/candidate/book.ts';
import type { RuleProblems } from './answers.ts';

/** The largest file that is sent: files are sent whole. */
const MAX_FILE_BYTES = 1024 * 1024;

const MAX_PROBLEMS = 200;

/** At most `MAX_PROBLEMS` problems; those of a posted text have no file. */
export const shownProblems = (problems: readonly Problem[]): RuleProblems => ({
  problems: problems.slice(0, MAX_PROBLEMS).map(({ file, line, column, ...problem }) => ({
    ...(file !== POSTED_NAME && { file }),
    ...(line !== undefined && { line }),
    ...(column !== undefined && { column }),
    ...problem,
  })),
  moreProblems: Math.max(countProblems(problems) - MAX_PROBLEMS, 0),
});

/** Operations that return the text of the rules, and the problems in a text. */
export function ruleTextOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('POST /api/v1/rules/check', {
      summary: 'checks a rule file as weir check does, for the store of this service; changes nothing',
      need: 'read',
      domains: 'any',
      body: 'any',
      consumes: 'application/yaml',
      answers: '`ok`, and `problems` with line and column, 200 at most; `moreProblems` counts the others.',
      answer: async ({ rawBody }) => checked(options, decodeText(rawBody)),
    }),
    operation('GET /api/v1/rules/text', {
      summary: 'the rule files of a domain in force',
      need: 'read',
      domains: 'named',
      query: fields({ domain }),
      answers: '`files`, each with its name and text.',
      answer: ({ query }) => readRuleFiles(options, query.domain),
    }),
  ];
}

/** @throws ApiProblem  400: it is not UTF-8 */
export function decodeText(body: Buffer): string {
  try {
    return utf8.decode(body);
  } catch {
    throw new ApiProblem(400, 'the body must be UTF-8');
  }
}

/** Throws if the bytes are not UTF-8; strips a byte order mark. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

function checked({ candidate }: AdminOptions, text: string): Answers['POST /api/v1/rules/check'] {
  const found = candidate.check(text);
  if (!found.ok) return { ok: false, ...shownProblems(found.problems) };
  const [first] = found.packed;
  return {
    ok: true,
    ...shownProblems(found.warnings),
    ...(first && { domain: first.name }),
    rules: found.ruleCount,
  };
}

/** @throws ApiProblem  404, 413 */
export async function readRuleFiles(
  { rules, settings }: Pick<AdminOptions, 'rules' | 'settings'>,
  name: string,
): Promise<Answers['GET /api/v1/rules/text']> {
  if ('controlPlane' in settings.rules.origin) throw new ApiProblem(404, 'the rules come from a control plane');
  const names = new Set<string>();
  const domain = rules()?.domains.get(name);
  for (const { place } of domain ? listedRules(domain.root) : []) if (place) names.add(place.file);
  if (names.size === 0) throw new ApiProblem(404, `no rules of domain '${name}' are in force`);
  const files: Answers['GET /api/v1/rules/text']['files'][number][] = [];
  for (const file of names) files.push({ name: file, text: await readBounded(file) });
  return { domain: name, files };
}

/** @throws ApiProblem  413: the file is too large; 404: it cannot be read */
async function readBounded(file: string): Promise<string> {
  const { size } = await stat(file).catch(() => ({ size: undefined }));
  if (size === undefined) throw new ApiProblem(404, `${file} cannot be read`);
  if (size > MAX_FILE_BYTES) throw new ApiProblem(413, `${file} has more than ${MAX_FILE_BYTES} bytes`);
  return readFile(file, 'utf8');
}
