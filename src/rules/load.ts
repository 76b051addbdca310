import { readFileSync, statSync } from 'node:fs';
import { compile } from './compile.ts';
import { checkFit, type StoreTraits } from './fit.ts';
import { lint } from './lint.ts';
import { layOver, type OverlayFile } from './overlay.ts';
import { type PackedRules, pack } from './packed.ts';
import { firstProblems, inFileOrder, type Problem, Problems } from './problem.ts';
import { type Block, readText } from './read.ts';
import type { RuleTree } from './tree.ts';
import { YamlError } from './yaml.ts';

/** A rule file to be read: where it lies, and what messages call it. */
export interface RuleFile {
  readonly path: string;
  readonly name: string;
  /** Its content, where it has been read already. */
  readonly text?: string;
}

/**
 * Rules, or every reason why there are none, in the order of the files. Warnings come either way, those of `lint` once
 * all files are right.
 */
export type LoadedRules =
  | {
      readonly ok: true;
      readonly rules: RuleTree;
      /** The same for other processes; absent where the rules are only checked. */
      readonly packed?: PackedRules;
      readonly warnings: readonly Problem[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export interface LoadOptions {
  /** Files of the same domain are put together, in the order given, instead of refused. */
  readonly mergeDomains: boolean;
  /** Where the counters will be: rules that ask more of it than it can do are wrong. Absent: wherever. */
  readonly store?: StoreTraits;
  /** What is laid over the rules. */
  readonly overlay?: readonly OverlayFile[];
}

/**
 * Reads rule files, one domain each, and compiles them. All problems of all files are found in one go; one error
 * anywhere and nothing is loaded.
 */
export function loadRules(files: readonly RuleFile[], options: LoadOptions): LoadedRules {
  const problems = new Problems();
  const blocks = files.flatMap((file) => readBlocks(file, problems));
  return loadBlocks(blocks, problems.all, options);
}

/**
 * Rules that are right, ready to be compiled elsewhere; or every reason why there are none. It can be sent to other
 * threads.
 */
export type CheckedRules =
  | {
      readonly ok: true;
      readonly packed: PackedRules;
      readonly warnings: readonly Problem[];
      /** The number of rules; absent: not counted. */
      readonly ruleCount?: number;
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** A rule file, and a text that differs whenever its content may. */
export interface RuleFileState extends RuleFile {
  readonly state: string;
}

/** What the thread that checks rule files is given. */
export interface FileCheck {
  readonly files: readonly RuleFileState[];
  readonly overlay: readonly OverlayFile[];
}

/**
 * Checks rule files. It keeps what it has read of each, and reads only those whose state has changed, and those that
 * could not be read.
 */
export function createFileChecker(
  options: LoadOptions,
): (files: readonly RuleFileState[], overlay?: readonly OverlayFile[]) => CheckedRules {
  const known = new Map<string, { readonly state: string; readonly read: ReadFile }>();
  return (files, overlay = []) => {
    const states = new Map(files.map(({ path, state }) => [path, state]));
    // before any is read: the rules of a file take many times its size
    for (const [path, { state, read }] of known)
      if (states.get(path) !== state || !read.wasReadable) known.delete(path);
    const read = files.map(({ state, ...file }) => {
      const kept = known.get(file.path) ?? { state, read: readRuleFile(file) };
      known.set(file.path, kept);
      return kept.read;
    });
    return checkBlocks(
      read.flatMap(({ blocks }) => blocks),
      read.flatMap(({ problems }) => problems),
      { ...options, overlay },
    );
  };
}

/**
 * The same as `loadBlocks`, but for what comes of it: rules that travel, and the first of their problems.
 *
 * @param inOrder  sorts problems: the first ones are kept
 */
export function checkBlocks(
  blocks: readonly Block<'file'>[],
  found: readonly Problem[],
  options: LoadOptions,
  inOrder: (problems: readonly Problem[]) => readonly Problem[] = inFileOrder,
): CheckedRules {
  const problems = new Problems(found);
  const { overlay = [], ...others } = options;
  const laid = layOver(blocks, overlay, problems);
  const loaded = loadBlocks(laid, problems.all, others);
  if (!loaded.ok) return { ok: false, problems: firstProblems(inOrder(loaded.problems)) };
  const ruleCount = loaded.rules.rules.length;
  const warnings = firstProblems(loaded.warnings);
  return { ok: true, packed: pack(laid, options.mergeDomains), warnings, ruleCount };
}

interface ReadFile {
  readonly blocks: readonly Block<'file'>[];
  readonly problems: readonly Problem[];
  /** The file system gave its content. */
  readonly wasReadable: boolean;
}

function readRuleFile(file: RuleFile): ReadFile {
  const problems = new Problems();
  let wasReadable = true;
  const blocks = readBlocks(file, problems, () => {
    wasReadable = false;
  });
  return { blocks, problems: problems.all, wasReadable };
}

/**
 * Compiles what was read, of files or of what says the same, one domain each.
 *
 * @param found  what reading it came to
 */
export function loadBlocks(
  plain: readonly Block<'file'>[],
  found: readonly Problem[],
  { mergeDomains, store, overlay = [] }: LoadOptions,
): LoadedRules {
  const problems = new Problems(found);
  const blocks = layOver(plain, overlay, problems);
  const rules = compile(blocks, mergeDomains, problems, store?.split);
  if (store) checkFit(blocks, store, problems);
  if (problems.hasErrors) return { ok: false, problems: inFileOrder(problems.all) };
  return { ok: true, rules, warnings: inFileOrder([...problems.all, ...lint(blocks, store?.spend ?? 'each')]) };
}

function readBlocks(
  { path, name: file, text }: RuleFile,
  problems: Problems,
  onUnreadable: () => void = () => {},
): Block<'file'>[] {
  const error = (line: number, message: string, column?: number): [] => {
    problems.error({ file, line, column, path: '' }, message);
    return [];
  };
  try {
    return readText(file, text ?? utf8.decode(readBounded(path)), problems);
  } catch (thrown) {
    if (thrown instanceof YamlError)
      return error(thrown.line, `error loading config file: ${thrown.message}`, thrown.column);
    if (!isSystemError(thrown)) throw thrown;
    onUnreadable();
    return error(1, `cannot be read: ${thrown.message}`);
  }
}

/** The largest rule file: some 100,000 rules. */
const MAX_FILE_BYTES = 8 * 1024 * 1024;

/** @throws YamlError  it is too large */
function readBounded(path: string): Buffer {
  const { size } = statSync(path, { throwIfNoEntry: false }) ?? { size: 0 }; // what is not there, reading says
  if (size > MAX_FILE_BYTES) throw new YamlError(`a file may have at most ${MAX_FILE_BYTES} bytes, got ${size}`, 1);
  return readFileSync(path);
}

/** Throws where bytes are no UTF-8; takes a byte order mark away. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

const isSystemError = (thrown: unknown): thrown is NodeJS.ErrnoException => thrown instanceof Error && 'code' in thrown;
