import { readFileSync } from 'node:fs';
import { algorithms } from '../algorithms/index.ts';
import { type Limit, type Unit, unitMs } from '../algorithms/limit.ts';
import type { Place, Problem } from './problem.ts';
import { type Block, readFile } from './read.ts';
import type { Branch, Domain, Level, Node, Rule, RuleTree, WildcardNode } from './tree.ts';
import { compileWildcard, hasWildcard } from './wildcard.ts';
import { parseYaml, YamlError } from './yaml.ts';

/** A rule file to be read: where it lies, and what messages call it. */
export interface RuleFile {
  readonly path: string;
  readonly name: string;
}

/** Rules, or every reason why there are none. Warnings come either way. */
export type LoadedRules =
  | { readonly ok: true; readonly rules: RuleTree; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Reads rule files, one domain each, and compiles them. All problems of all files are found in one go; one error
 * anywhere and nothing is loaded.
 *
 * @param mergeDomains  files of the same domain are put together, in the order given, instead of refused
 */
export function loadRules(
  files: readonly RuleFile[],
  { mergeDomains }: { readonly mergeDomains: boolean },
): LoadedRules {
  const problems: Problem[] = [];
  const blocks = files.flatMap((file) => readBlocks(file, problems));
  const domains = new Map<string, Domain>();
  for (const [name, nodes] of groupByDomain(blocks, mergeDomains, problems)) {
    domains.set(name, { name, root: buildLevel(nodes, name, problems) });
  }
  if (problems.some(({ severity }) => severity === 'error')) return { ok: false, problems };
  const rules = [...domains.values()].flatMap(({ root }) => rulesOf(root));
  return { ok: true, rules: { domains, rules }, warnings: problems };
}

/** The rules of a level and of all below it. */
function rulesOf(level: Level): readonly Rule[] {
  const nodes = [...level.byKey.values()].flatMap(({ byValue, anyValue }) => [
    ...byValue.values(),
    ...(anyValue ? [anyValue] : []),
  ]);
  return nodes.flatMap(({ rule, children }) => [...(rule ? [rule] : []), ...(children ? rulesOf(children) : [])]);
}

function readBlocks({ path, name: file }: RuleFile, problems: Problem[]): Block<'file'>[] {
  const error = (line: number, message: string): [] => {
    problems.push({ file, line, path: '', severity: 'error', message });
    return [];
  };
  try {
    const { root, moreDocumentsAt } = parseYaml(readFileSync(path, 'utf8'));
    for (const line of moreDocumentsAt) {
      const message = 'only the first YAML document of a file is read; this one is ignored';
      problems.push({ file, line, path: '', severity: 'warning', message });
    }
    const block = readFile(file, root, problems);
    return block ? [block] : [];
  } catch (thrown) {
    if (thrown instanceof YamlError) return error(thrown.line, `error loading config file: ${thrown.message}`);
    if (isSystemError(thrown)) return error(1, `cannot be read: ${thrown.message}`);
    throw thrown;
  }
}

const isSystemError = (thrown: unknown): thrown is NodeJS.ErrnoException => thrown instanceof Error && 'code' in thrown;

function groupByDomain(blocks: readonly Block<'file'>[], mergeDomains: boolean, problems: Problem[]) {
  const byDomain = new Map<string, Block<'node'>[]>();
  for (const { values, wrong, place } of blocks) {
    const { domain = '', descriptors = [] } = values;
    const known = byDomain.get(domain);
    if (domain === '' && !wrong.has('domain')) {
      report(problems, place('domain'), 'config file cannot have empty domain: wanted a name, got nothing');
    } else if (domain !== '' && known && !mergeDomains) {
      const hint = 'give each domain one file, or set MERGE_DOMAIN_CONFIG=true';
      report(problems, place('domain'), `duplicate domain '${domain}' in config file: ${hint}`);
    }
    byDomain.set(domain === '' ? `(${place().file})` : domain, [...(known ?? []), ...descriptors]);
  }
  return byDomain;
}

function report(problems: Problem[], place: Place, message: string, severity: Problem['severity'] = 'error'): void {
  problems.push({ ...place, severity, message });
}

interface Branching {
  byValue: Map<string, Node>;
  wildcards: WildcardNode[];
  anyValue: Node | undefined;
}

/** Compiles the nodes of one level, and all below them. `parentPath` is what their rules' paths begin with. */
function buildLevel(blocks: readonly Block<'node'>[], parentPath: string, problems: Problem[]): Level {
  const byKey = new Map<string, Branching>();
  const wildcards: WildcardNode[] = [];
  for (const block of blocks) {
    const { key = '', value = '' } = block.values;
    const path = `${parentPath}.${value === '' ? key : `${key}_${value}`}`;
    const branch = byKey.get(key) ?? { byValue: new Map(), wildcards: [], anyValue: undefined };
    byKey.set(key, branch);
    const isRight = key !== '' && !block.wrong.has('key') && !block.wrong.has('value');
    if (key === '' && !block.wrong.has('key')) {
      report(problems, block.place('key'), 'descriptor has empty key: wanted a name such as user, got nothing');
    } else if (isRight && (value === '' ? branch.anyValue : branch.byValue.has(value))) {
      report(
        problems,
        block.place('key'),
        `duplicate descriptor composite key '${path}'; what was given before has it too`,
      );
    }
    const node = buildNode(block, path, problems);
    if (value !== '') branch.byValue.set(value, node);
    else if (isRight) branch.anyValue = node;
    if (hasWildcard(key) || hasWildcard(value)) {
      wildcards.push({ key: compileWildcard(key), value: value === '' ? undefined : compileWildcard(value), node });
    }
  }
  for (const [key, branch] of byKey) branch.wildcards = wildcards.filter((wildcard) => wildcard.key.matches(key));
  return {
    byKey: byKey satisfies Map<string, Branch>,
    keyWildcards: wildcards.filter(({ key }) => hasWildcard(key.text)),
  };
}

function buildNode(block: Block<'node'>, path: string, problems: Problem[]): Node {
  const { key = '', value = '', share_threshold: shares = false, descriptors = [] } = block.values;
  const composite = value === '' ? key : `${key}_${value}`;
  const rule = buildRule(block, path, problems);
  if (shares && !hasWildcard(composite) && !block.wrong.has('key') && !block.wrong.has('value')) {
    const message = `share_threshold can only be used with wildcard values (containing '*'), but found key '${composite}'`;
    report(problems, block.place('share_threshold'), message);
  }
  for (const ignored of ['detailed_metric', 'value_to_metric', 'metadata'] as const) {
    if (block.values[ignored] === undefined) continue;
    report(problems, block.place(ignored), `${ignored} is checked but has no effect yet`, 'warning');
  }
  return {
    rule,
    children: descriptors.length > 0 ? buildLevel(descriptors, path, problems) : undefined,
    sharedValue: shares ? (hasWildcard(key) ? composite : value) : undefined,
  };
}

function buildRule(block: Block<'node'>, path: string, problems: Problem[]): Rule | undefined {
  const { rate_limit: limitBlock, shadow_mode: shadow = false, quota_mode: quota = false } = block.values;
  if (!limitBlock) return undefined;
  const limit = buildLimit(limitBlock, problems);
  const unlimited = limitBlock.values.unlimited ?? false;
  const replaces = buildReplaces(limitBlock, problems);
  return { path, limits: limit ? [limit] : [], unlimited, shadow, quota, replaces };
}

const unitNames = Object.keys(unitMs).map((unit) => unit.toLowerCase());

function buildLimit(block: Block<'rate_limit'>, problems: Problem[]): Limit | undefined {
  const {
    unit: written = '',
    requests_per_unit: requestsPerUnit = 0,
    unlimited = false,
    name = '',
    algorithm,
  } = block.values;
  if (algorithm !== undefined && !Object.hasOwn(algorithms, algorithm)) {
    const wanted = Object.keys(algorithms).join(', ');
    report(problems, block.place('algorithm'), `unknown algorithm '${algorithm}'; wanted one of ${wanted}`);
  }
  const unit = unitNames.includes(written.toLowerCase()) ? (written.toUpperCase() as Unit) : undefined; // one of unitMs
  if (unlimited) {
    if (unit)
      report(problems, block.place('unit'), 'should not specify rate limit unit when unlimited: leave one of them out');
    return undefined;
  }
  if (!unit) {
    if (!block.wrong.has('unit') && !block.wrong.has('unlimited'))
      report(
        problems,
        block.place('unit'),
        `invalid rate limit unit '${written}'; wanted one of ${unitNames.join(', ')}`,
      );
    return undefined;
  }
  return { algorithm: 'fixed_window', name, requestsPerUnit, unit, unitMultiplier: 1, windowMs: unitMs[unit] };
}

function buildReplaces(block: Block<'rate_limit'>, problems: Problem[]): readonly string[] {
  const { name: own = '', replaces = [] } = block.values;
  return replaces.flatMap(({ values: { name = '' }, wrong, place }) => {
    if (name !== '' && name !== own) return [name];
    if (wrong.has('name')) return [];
    const message =
      name === '' ? 'should not have an empty replaces entry' : 'replaces should not contain name of same descriptor';
    report(problems, place('name'), `${message}: wanted the name of another limit, got '${name}'`);
    return [];
  });
}
