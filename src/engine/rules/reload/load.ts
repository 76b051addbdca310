import { overlays, ruleChecks } from '../../../parts/rule-checks.ts';
import { groupByDomain, type WrittenDomain } from '../compile/by-domain.ts';
import { checkFit, leaseByDefault, type StoreTraits } from '../compile/fit.ts';
import { type PackedRules, pack } from '../compile/packed.ts';
import { type CountReplicas, multiplyByReplicas } from '../compile/replicas.ts';
import { compile, countPathCharacters } from '../compile/tree-builder.ts';
import type { RuleTree } from '../match/tree.ts';
import { markAnyOrder } from '../read/any-order.ts';
import type { Block } from '../read/block.ts';
import { decodeText, NotAFile, readBounded, TooManyBytes } from '../read/bounded-file.ts';
import type { OverlayFile } from '../read/overlaid.ts';
import { firstProblems, type Problem, Problems } from '../read/problem.ts';
import { readText } from '../read/read.ts';
import { replaceRequirements } from '../read/requirement.ts';

interface RuleFile {
  readonly path: string;
  readonly name: string;
  readonly text?: string;
}

/**
 * The rules, or all problems that prevent loading them, in the order of the files. Warnings are included either way;
 * those of `ruleChecks` only if all files are valid.
 */
export type LoadedRules =
  | {
      readonly ok: true;
      readonly rules: RuleTree;
      /** The rules in a form to send to other processes; absent if they are only checked. */
      readonly packed?: PackedRules;
      readonly warnings: readonly Problem[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export interface LoadOptions {
  /** Merge files of the same domain, in the order given, instead of refusing them. */
  readonly mergeDomains: boolean;
  /** Capabilities of the counters' store; rules that require more are invalid. Default: not checked. */
  readonly store?: StoreTraits;
  readonly overlay?: readonly OverlayFile[];
  /** Counts the replicas that limits with `per_replica` are about. Default: their number is not known. */
  readonly replicas?: CountReplicas | undefined;
}

/**
 * Reads rule files, one domain each, and compiles them. Finds all problems of all files at once; a single error
 * prevents loading. Pipes are read, too: a shell may pass one to a command.
 */
export function loadRules(files: readonly RuleFile[], options: LoadOptions): LoadedRules {
  const problems = new Problems();
  const blocks = files.flatMap((file) => readBlocks(file, problems, true));
  return compileBlocks(blocks, problems.all, options).loaded;
}

/** Valid rules, ready to be compiled elsewhere; or all problems that prevent it. Can be sent to other processes. */
export type CheckedRules =
  | {
      readonly ok: true;
      readonly packed: PackedRules;
      readonly warnings: readonly Problem[];
      readonly ruleCount: number;
      /** The length of all rules' paths together. */
      readonly pathCharacters: number;
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** A rule file, and a text that changes whenever its content may have changed. */
export interface RuleFileState extends RuleFile {
  readonly state: string;
}

/** Reads and checks rule files. */
export function checkRuleFiles(files: readonly RuleFile[], options: LoadOptions): CheckedRules {
  const problems = new Problems();
  const blocks = files.flatMap((file) => readBlocks(file, problems));
  return checkBlocks(blocks, problems.all, options);
}

/**
 * Checks parsed rules, from files or another source, one domain each.
 *
 * @param found    problems found by reading them
 * @param inOrder  sorts problems, of which the first ones are kept
 */
export function checkBlocks(
  blocks: readonly Block<'file'>[],
  found: readonly Problem[],
  options: LoadOptions,
  inOrder: (problems: readonly Problem[]) => readonly Problem[] = inFileOrder,
): CheckedRules {
  const { loaded, domains } = compileBlocks(blocks, found, options);
  if (!loaded.ok) return { ok: false, problems: firstProblems(inOrder(loaded.problems)) };
  const { rules } = loaded.rules;
  return {
    ok: true,
    packed: pack(domains),
    warnings: firstProblems(loaded.warnings),
    ruleCount: rules.length,
    pathCharacters: countPathCharacters(rules),
  };
}

/** @returns  with the domains under the overlay */
function compileBlocks(
  blocks: readonly Block<'file'>[],
  found: readonly Problem[],
  { mergeDomains, store, overlay = [], replicas }: LoadOptions,
): { readonly loaded: LoadedRules; readonly domains: ReadonlyMap<string, WrittenDomain> } {
  const problems = new Problems(found);
  const overlaid = Object.values(overlays).reduce((files, layOver) => layOver(files, overlay, problems), blocks);
  const laid = leaseByDefault(multiplyByReplicas(overlaid, replicas, problems), store);
  const domains = groupByDomain(laid, mergeDomains, problems);
  const rules = compile(domains, store?.split, problems);
  if (store) checkFit(laid, store, problems);
  if (problems.hasErrors) return { loaded: { ok: false, problems: inFileOrder(problems.all) }, domains };
  const further = Object.values(ruleChecks).flatMap((check) => check(laid, store?.spend ?? 'each'));
  return { loaded: { ok: true, rules, warnings: inFileOrder([...problems.all, ...further]) }, domains };
}

/** The block of a file, or none if nothing of it can be read. */
export function readBlocks(
  { path, name: file, text }: RuleFile,
  problems: Problems,
  isAnyKindRead = false,
): Block<'file'>[] {
  const error = (line: number, message: string): [] => {
    problems.error({ file, line, path: '' }, message);
    return [];
  };
  try {
    const written = text ?? decodeText(readBounded(path, MAX_FILE_BYTES, isAnyKindRead));
    return readText(file, written, problems).map((block) =>
      markAnyOrder(replaceRequirements(block, problems), problems),
    );
  } catch (thrown) {
    if (thrown instanceof TooManyBytes) return error(1, `error loading config file: ${thrown.message}`);
    if (!(isSystemError(thrown) || thrown instanceof NotAFile)) throw thrown;
    const message = `cannot be read: ${thrown.message}`;
    if (!('syscall' in thrown)) return error(1, message); // it is no file, or not UTF-8
    problems.add([unreadProblem(file, message)]);
    return [];
  }
}

/** The problem of a file that could not be read or checked. */
export const unreadProblem = (file: string, message: string): Problem => ({
  file,
  line: 1,
  path: '',
  severity: 'error',
  message,
  isUnread: true,
});

/** Maximum size of a rule file, about 100,000 rules. */
const MAX_FILE_BYTES = 8 * 1024 * 1024;

const isSystemError = (thrown: unknown): thrown is NodeJS.ErrnoException => thrown instanceof Error && 'code' in thrown;

export const inFileOrder = (problems: readonly Problem[]): readonly Problem[] =>
  problems.toSorted((a, b) => compareText(a.file, b.file) || (a.line ?? 0) - (b.line ?? 0));

const compareText = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
