import { printable } from '../../base/printable.ts';
import { describeRuleFully, ruleAsJson } from '../../edge/listing/describe.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { shown } from '../../engine/rules/read/problem.ts';
import type { Paint } from '../lab/commands/paint.ts';
import type { RuleDiff } from './diff/diff.ts';
import type { Rerouted } from './diff/rerouted.ts';

/** Renders the comparison as text. */
export function diffText({ added, removed, changed, rerouted, domains, spends }: RuleDiff, terminal: Paint): string {
  const lines: string[] = [];
  const add = (paint: keyof Paint, text: string, ...details: readonly string[]): void =>
    void lines.push(terminal[paint](printable(text)), ...details.map((detail) => printable(`    ${detail}`)));
  for (const { rule, before, counters } of added) {
    const from = before ? `its descriptors matched ${before.path} before` : 'its descriptors matched no rule before';
    add('good', `+ ${shortly(rule)}`, `${from}${fateText(counters)}`);
  }
  for (const { rule, after } of removed) {
    const to = after ? `its descriptors match ${after.path} now` : 'its descriptors match no rule now';
    add('bad', `- ${shortly(rule)}`, to);
  }
  for (const { before, after, counters } of changed) {
    const describe = fully(before) === fully(after) ? asJson : fully;
    add('strong', `~ ${after.path}`, `was ${describe(before)}`, `now ${describe(after)}${fateText(counters)}`);
  }
  for (const one of rerouted) add('strong', `~ ${one.node}`, reroutedText(one));
  for (const { name, kind } of domains) add('strong', `~ domain ${name}: ${domainTexts[kind]}`);
  for (const [domain, { before = 'default (SPEND)', after = 'default (SPEND)' }] of spends)
    add('strong', `~ domain ${domain}: spend ${before} -> ${after}`);
  const sum = `${added.length} added, ${removed.length} removed, ${changed.length} changed`;
  return [...lines, rerouted.length === 0 ? sum : `${sum}, ${rerouted.length} rerouted`].join('\n');
}

const domainTexts = {
  added: 'new',
  removed: 'gone',
  ids: 'different entries are request ids (not_counted)',
} as const satisfies Record<RuleDiff['domains'][number]['kind'], string>;

/** Maximum number of other rules that are named. */
const MAX_NAMED_OTHERS = 5;

function reroutedText({ kind, node, others, isLiteral }: Rerouted): string {
  const more = others.length > MAX_NAMED_OTHERS ? ` and ${others.length - MAX_NAMED_OTHERS} more` : '';
  const named = others.slice(0, MAX_NAMED_OTHERS).map(shown).join(', ') + more;
  const whose = isLiteral ? `descriptors with the literal text ${shown(node)}, including the *,` : 'its descriptors';
  switch (kind) {
    case 'hides':
      return `is new: ${whose} no longer match ${named}`;
    case 'uncovers':
      return `is gone: ${whose} may match ${named} now`;
    case 'precedes':
      return `is now matched before ${named}`;
  }
}

const shortly = ({ path, limits, unlimited }: Rule): string =>
  `${path}: ${unlimited ? 'unlimited' : limits.map(describeLimit).join(', ')}`;

/** Everything that affects decisions, without path and place. */
const fully = ({ place: _, ...rule }: Rule): string =>
  describeRuleFully({ ...rule, place: undefined })
    .split('\n')
    .map((line) => line.slice(rule.path.length + 2))
    .join('; ');

/** What a description of one line leaves out, such as the body of a response. */
const asJson = (rule: Rule): string => JSON.stringify(ruleAsJson({ ...rule, place: undefined }));

function fateText(counters: RuleDiff['added'][number]['counters']): string {
  if (counters.length === 0) return '';
  if (counters.every(({ isKept }) => isKept)) return '; counters are kept';
  if (counters.every(({ isKept }) => !isKept)) return '; counters start anew';
  const anew = counters.filter(({ isKept }) => !isKept).map(({ limit }) => describeLimit(limit));
  return `; counters are kept, except that ${anew.join(', ')} start anew`;
}
