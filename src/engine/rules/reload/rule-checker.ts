import { groupBy } from '../../../base/group.ts';
import { MAX_PATH_CHARACTERS } from '../compile/tree-builder.ts';
import type { Block } from '../read/block.ts';
import type { OverlayFile } from '../read/overlaid.ts';
import { firstProblems, type Problem, Problems } from '../read/problem.ts';
import {
  type CheckedRules,
  checkBlocks,
  checkRuleFiles,
  inFileOrder,
  type LoadOptions,
  type RuleFileState,
  readBlocks,
} from './load.ts';

type Valid = Extract<CheckedRules, { ok: true }>;

interface CheckedDomain {
  readonly name: string;
  readonly files: readonly RuleFileState[];
  readonly checked: CheckedRules;
}

interface ReadFile {
  readonly blocks: readonly Block<'file'>[];
  readonly problems: readonly Problem[];
}

/**
 * Checks rule files like `checkRuleFiles`, but reads and checks a valid domain again only if one of its files has
 * changed: of 10,000 files, all take seconds. An overlay may change any domain, so that all are checked with one.
 */
export class RuleChecker {
  readonly #options: LoadOptions;
  /** The valid domains of the last check, by the paths of their files. */
  #known: ReadonlyMap<string, CheckedDomain> = new Map();

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  check(files: readonly RuleFileState[], overlay: readonly OverlayFile[]): CheckedRules {
    if (overlay.length > 0) return checkRuleFiles(files, { ...this.#options, overlay });
    const domains = this.#checkDomains(files);
    const valid = domains.filter(({ checked }) => checked.ok);
    this.#known = new Map(valid.flatMap((domain) => domain.files.map(({ path }) => [path, domain])));
    const checked = joinDomains(domains);
    const isTooLong = checked.ok && checked.pathCharacters > MAX_PATH_CHARACTERS;
    return isTooLong ? checkRuleFiles(files, this.#options) : checked;
  }

  #checkDomains(files: readonly RuleFileState[]): readonly CheckedDomain[] {
    const fresh = new Map<RuleFileState, ReadFile>();
    const read = (file: RuleFileState): ReadFile => {
      const found = fresh.get(file) ?? readFile(file);
      fresh.set(file, found);
      return found;
    };
    const findName = (file: RuleFileState): string =>
      this.#knownWith(file)?.name ?? read(file).blocks[0]?.values.domain ?? '';
    return Array.from(groupBy(files, findName), ([name, group]) => {
      const [first] = group;
      const known = first && this.#knownWith(first);
      if (known && isSameList(known.files, group)) return known;
      const parts = group.map(read);
      const blocks = parts.flatMap((part) => part.blocks);
      const problems = parts.flatMap((part) => part.problems);
      return { name, files: group, checked: checkBlocks(blocks, problems, this.#options) };
    });
  }

  /** The valid domain of a file that has not changed. */
  #knownWith(file: RuleFileState): CheckedDomain | undefined {
    const known = this.#known.get(file.path);
    return known?.files.some((one) => isSame(one, file)) ? known : undefined;
  }
}

const isSame = (one: RuleFileState, other: RuleFileState | undefined): boolean =>
  one.path === other?.path && one.state === other.state;

const isSameList = (some: readonly RuleFileState[], others: readonly RuleFileState[]): boolean =>
  some.length === others.length && some.every((one, at) => isSame(one, others[at]));

function readFile(file: RuleFileState): ReadFile {
  const problems = new Problems();
  const blocks = readBlocks(file, problems);
  return { blocks, problems: problems.all };
}

/** Valid rules if all domains are valid; otherwise the problems of the others. */
function joinDomains(domains: readonly CheckedDomain[]): CheckedRules {
  const invalid = domains.flatMap(({ checked }) => (checked.ok ? [] : checked.problems));
  if (invalid.length > 0) return { ok: false, problems: firstProblems(inFileOrder(invalid)) };
  const valid = domains.flatMap(({ checked }): readonly Valid[] => (checked.ok ? [checked] : []));
  const sum = (read: (one: Valid) => number): number => valid.reduce((total, one) => total + read(one), 0);
  return {
    ok: true,
    packed: valid.flatMap(({ packed }) => packed),
    warnings: firstProblems(inFileOrder(valid.flatMap(({ warnings }) => warnings))),
    ruleCount: sum(({ ruleCount }) => ruleCount),
    pathCharacters: sum(({ pathCharacters }) => pathCharacters),
  };
}
