import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { counted } from '../../base/texts.ts';
import { descriptorText, parseDescriptor } from '../../edge/listing/descriptor-text.ts';
import { type Answer, decide, type RequestDescriptor, type Verdict } from '../../engine/decide/decide.ts';
import { createOfflineDecider } from '../../engine/decide/offline.ts';
import { wouldRefuse } from '../../engine/decide/would-refuse.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import { missingName } from '../../engine/rules/read/requirement.ts';
import { parseYaml, YamlError, type YamlNode } from '../../engine/rules/read/yaml.ts';
import { loadSource } from '../../engine/rules/reload/book.ts';
import { plainPath } from '../../engine/rules/reload/files.ts';
import { readTime, wallClock } from '../../engine/rules/time/zone-time.ts';
import type { Environment } from '../../settings/near-misses.ts';
import type { Settings } from '../../settings/settings.ts';
import { loadSettings } from '../lab/commands/load-rules.ts';
import { explain } from '../lab/stop.ts';

/** A test of a rule file, with a request that is sent `times` times on new counters, and the expected last answer. */
type RuleTest = ReturnType<typeof readTest>;

class InvalidTests extends Error {
  readonly line: number;
  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

const MAX_TIMES = 1_000_000;
/** Default time of tests, at the start of a day so that fixed windows are new. */
const START_MS = 1_767_225_600_000; // 2026-01-01 in UTC

/**
 * Runs tests of rule files, with counters in memory and a stopped clock. Modes, `spend` and MERGE_DOMAIN_CONFIG come
 * from the environment.
 *
 * @param files  YAML files with `rules`, a path relative to the file, and `tests`
 * @param rules  rule file or directory, instead of those that the files name
 * @returns a line for each test, and for each file without tests
 */
export async function runRuleTests(files: readonly string[], rules: string | undefined, env: Environment) {
  const settings = await loadSettings(env);
  const lines: string[] = [];
  let failed = 0;
  const fail = (file: string, line: number, message: string): void => {
    failed++;
    lines.push(`FAILED ${file}:${line}: ${message}`);
  };
  for (const file of files) {
    try {
      const { path, tests } = readTests(file, rules);
      const loaded = await loadSource(plainPath(path), { mergeDomains: settings.rules.mergeDomains });
      if (!loaded.ok) throw new InvalidTests(1, loaded.problems.map(formatProblem).join('\n  '));
      for (const test of tests) {
        const differences = await run(test, loaded.rules, settings);
        if (differences.length === 0) lines.push(`ok     ${file}:${test.line}: ${test.name}`);
        else fail(file, test.line, `${test.name}\n${differences.map((one) => `         ${one}`).join('\n')}`);
      }
    } catch (error) {
      if (!(error instanceof InvalidTests || error instanceof YamlError)) throw error;
      fail(file, error.line, error.message);
    }
  }
  return { lines, failed };
}

async function run(test: RuleTest, rules: RuleTree, settings: Settings): Promise<readonly string[]> {
  const clock = (): number => test.atMs;
  const offline = createOfflineDecider(clock, settings.decisions, { maxCounters: MAX_TIMES });
  const decider = { ...offline, rules: () => rules };
  let answer: Answer | undefined;
  for (let sent = 0; sent < test.times; sent++) answer = await decide(test, decider, Number.POSITIVE_INFINITY);
  await offline.ledger.close();
  return answer ? differences(test, answer, rules) : [];
}

function differences({ domain, descriptors, expected }: RuleTest, answer: Answer, rules: RuleTree): readonly string[] {
  const found: string[] = [];
  const compare = (wanted: string | undefined, got: string, text: (wanted: string) => string): void => {
    if (wanted !== undefined && wanted !== got) found.push(text(wanted));
  };
  const lacks = answer.unmet?.missing.map(({ requirement }) => missingName(requirement)).join(', ') ?? 'none';
  compare(expected.missing, lacks, (wanted) => `expected missing ${wanted}, got ${lacks}`);
  const spared = [...new Set(wouldRefuse(answer).map(({ rule }) => rule.path))].join(', ') || 'none';
  compare(expected.wouldRefuse?.join(', '), spared, (wanted) => `expected would_refuse ${wanted}, got ${spared}`);
  const code = answer.overallCode;
  compare(expected.code, code, (wanted) => `expected ${wanted}, got ${code}`);
  for (const [at, first] of answer.verdicts.entries()) {
    const verdict = ofRule(first, expected.rules?.[at]);
    const descriptor = answer.unmet?.descriptors[at] ?? descriptors[at];
    const shown = descriptor && descriptorText(descriptor.entries);
    const why = descriptor ? explain(rules, domain, descriptor).text : '';
    const rule = 'rule' in verdict ? verdict.rule.path : 'none';
    compare(expected.rules?.[at], rule, (wanted) => `${shown}: expected rule ${wanted}, got ${rule}: ${why}`);
    const left = remainingText(verdict);
    compare(expected.remaining?.[at], left, (wanted) => `${shown}: expected ${wanted} remaining, got ${left}: ${why}`);
  }
  return found;
}

/** The verdict of this rule if it is one of those on a descriptor; else the one that is shown. */
function ofRule(first: Verdict, path: string | undefined): Verdict {
  for (let one: Verdict | undefined = first; one?.kind === 'limited'; one = one.beside)
    if (one.rule.path === path) return one;
  return first;
}

const remainingText = (verdict: Verdict): string =>
  verdict.kind === 'limited' ? String(verdict.decision.limitRemaining) : verdict.kind === 'unlimited' ? 'any' : 'none';

function readTests(
  file: string,
  rules: string | undefined,
): { readonly path: string; readonly tests: readonly RuleTest[] } {
  const root = readMap(parseYaml(readText(file)).root, 1, 'the file', ['rules', 'tests']);
  const named = root.get('rules');
  if (rules === undefined && !named) throw new InvalidTests(1, 'rules must name a rule file or directory, got nothing');
  const tests = readItems(root.get('tests'), 1, 'tests').map(readTest);
  if (tests.length === 0) throw new InvalidTests(1, 'tests must contain at least one test, got none');
  return { path: rules ?? resolve(dirname(file), named ? toText(named, 'rules') : ''), tests };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new InvalidTests(1, `cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

const TEST_KEYS = ['name', 'domain', 'descriptors', 'hits', 'times', 'at', 'expect'];
const EXPECT_KEYS = ['code', 'rules', 'remaining', 'missing', 'would_refuse'];

function readTest(node: YamlNode) {
  const { line } = node;
  const test = readMap(node, line, 'a test', TEST_KEYS);
  const expect = readMap(test.get('expect'), line, 'expect', EXPECT_KEYS);
  const hits = readCount(test.get('hits'), 'hits', 1);
  const descriptors = readItems(test.get('descriptors'), line, 'descriptors').map((one) => readDescriptor(one, hits));
  if (descriptors.length === 0) throw new InvalidTests(line, 'descriptors must contain at least one, got none');
  const expected = readExpected(expect, descriptors.length, line);
  const domain = toText(test.get('domain') ?? node, 'domain');
  const written = descriptors.map(({ entries }) => descriptorText(entries)).join(' ');
  return {
    line,
    name: optionalText(test, 'name') ?? `${domain} ${written}`,
    domain,
    descriptors,
    times: Math.min(readCount(test.get('times'), 'times', 1), MAX_TIMES),
    atMs: readAt(test.get('at')),
    expected,
  };
}

/** @param count  number of descriptors */
function readExpected(expect: ReadonlyMap<string, YamlNode>, count: number, line: number) {
  const texts = (key: string): readonly string[] | undefined => {
    const found = expect.get(key);
    return found && (found.kind === 'list' ? found.items : [found]).map((item) => toText(item, key));
  };
  const forEach = (key: string): readonly string[] | undefined => {
    const found = texts(key);
    if (!found || found.length === count) return found;
    const message = `${key} must hold one for each of ${counted(count, 'descriptor')}, got ${found.length}`;
    throw new InvalidTests(expect.get(key)?.line ?? line, message);
  };
  const code = optionalText(expect, 'code');
  if (code !== undefined && !['OK', 'OVER_LIMIT'].includes(code))
    throw new InvalidTests(expect.get('code')?.line ?? line, `code must be OK or OVER_LIMIT, got '${code}'`);
  return {
    code,
    /** Path of the rule of each descriptor, or `none`. */
    rules: forEach('rules'),
    remaining: forEach('remaining'),
    /** The required keys that the request lacks, or `none`. */
    missing: optionalText(expect, 'missing'),
    /** Paths of the rules whose limits would have refused, in order, or `none`. */
    wouldRefuse: texts('would_refuse'),
  };
}

function optionalText(map: ReadonlyMap<string, YamlNode>, key: string): string | undefined {
  const node = map.get(key);
  return node && toText(node, key);
}

/** `user=alice,path=/login`, or a mapping of keys and values. */
function readDescriptor(node: YamlNode, hits: number): RequestDescriptor {
  const pairs = node.kind === 'map' ? node.entries : undefined;
  const entries = pairs
    ? pairs.map(({ key, value }) => ({ key: toText(key, 'a key'), value: toText(value, 'a value') }))
    : parseText(toText(node, 'a descriptor'), node.line);
  return { entries, hits, requestLimit: undefined };
}

function parseText(text: string, line: number): readonly Entry[] {
  try {
    return parseDescriptor(text);
  } catch (error) {
    throw new InvalidTests(line, error instanceof Error ? error.message : '');
  }
}

function readMap(
  node: YamlNode | undefined,
  line: number,
  what: string,
  keys: readonly string[],
): ReadonlyMap<string, YamlNode> {
  if (node?.kind !== 'map')
    throw new InvalidTests(node?.line ?? line, `${what} must be a mapping of ${keys.join(', ')}`);
  return new Map(
    node.entries.map(({ key, value }) => {
      const name = toText(key, 'a key');
      if (keys.includes(name)) return [name, value];
      throw new InvalidTests(key.line, `unknown key '${name}' of ${what}; expected one of ${keys.join(', ')}`);
    }),
  );
}

function readItems(node: YamlNode | undefined, line: number, what: string): readonly YamlNode[] {
  if (node?.kind === 'list') return node.items;
  throw new InvalidTests(node?.line ?? line, `${what} must be a list`);
}

function toText(node: YamlNode, what: string): string {
  if (node.kind === 'scalar') return node.text;
  throw new InvalidTests(node.line, `${what} must be text`);
}

function readAt(node: YamlNode | undefined): number {
  if (!node) return START_MS;
  const written = toText(node, 'at');
  const read = readTime(written, wallClock('UTC'));
  if (read) return read.atMs;
  throw new InvalidTests(node.line, `at must be a time such as 2026-11-27T00:00 or …T01:00+01:00, got '${written}'`);
}

function readCount(node: YamlNode | undefined, what: string, fallback: number): number {
  if (!node) return fallback;
  const written = toText(node, what);
  if (/^\d+$/.test(written)) return Number(written);
  throw new InvalidTests(node.line, `${what} must be a whole number, got '${written}'`);
}
