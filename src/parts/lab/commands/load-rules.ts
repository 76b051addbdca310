import type { RuleTree } from '../../../engine/rules/match/tree.ts';
import type { OverlayFile } from '../../../engine/rules/read/overlaid.ts';
import { formatProblem, type Problem } from '../../../engine/rules/read/problem.ts';
import { loadSource } from '../../../engine/rules/reload/book.ts';
import { plainPath } from '../../../engine/rules/reload/files.ts';
import { type LoadedRules, loadRules } from '../../../engine/rules/reload/load.ts';
import { readOverlayFiles } from '../../../engine/rules/reload/overlay-files.ts';
import type { Environment } from '../../../settings/near-misses.ts';
import type { Settings } from '../../../settings/settings.ts';
import { CommandFailed } from './client.ts';

/** @throws CommandFailed if the settings are invalid */
export async function loadSettings(env: Environment): Promise<Settings> {
  const [{ readSettings }, { InvalidSettings }] = await Promise.all([
    import('../../../settings/settings.ts'),
    import('../../../settings/values.ts'),
  ]);
  return readSettings(env).catch((error: unknown) => {
    throw error instanceof InvalidSettings ? new CommandFailed(error.message) : error;
  });
}

/**
 * Loads the rules at a path with the given overlays, by default those of RULES_OVERLAY.
 *
 * @throws CommandFailed if the rules are invalid
 */
export async function loadRulesAt(
  path: string,
  overlays: readonly string[],
  { rules: { overlayPath, mergeDomains } }: Pick<Settings, 'rules'>,
): Promise<RuleTree> {
  const { files: overlay, problems } = await readOverlays(overlays, overlayPath);
  if (problems.length > 0) throw wrongRules(problems);
  return requireTree(await loadSource(plainPath(path), { mergeDomains, overlay }));
}

/** The overlay files of several paths, by default those of RULES_OVERLAY, and problems of unreadable ones. */
export async function readOverlays(paths: readonly string[], overlayPath: string | undefined) {
  const files: OverlayFile[] = [];
  const problems: Problem[] = [];
  for (const path of paths.length > 0 || overlayPath === undefined ? paths : [overlayPath]) {
    const read = await readOverlayFiles(plainPath(path));
    if ('files' in read) files.push(...read.files);
    else problems.push(...read.problems);
  }
  return { files, problems };
}

/**
 * Loads the rules at a path without overlays; several files may have the same domain.
 *
 * @throws CommandFailed if the rules are invalid
 */
export const loadMergedRulesAt = async (path: string): Promise<RuleTree> =>
  requireTree(await loadSource(plainPath(path), { mergeDomains: true }));

/** @throws CommandFailed if the rules are invalid */
export const loadRulesText = (name: string, text: string): RuleTree =>
  requireTree(loadRules([{ name, path: name, text }], { mergeDomains: false }));

function requireTree(loaded: LoadedRules): RuleTree {
  if (loaded.ok) return loaded.rules;
  throw wrongRules(loaded.problems);
}

const wrongRules = (problems: readonly Problem[]): CommandFailed =>
  new CommandFailed(`invalid rules:\n${problems.map(formatProblem).join('\n')}`);
