import { describeLimit, describeRuleFully } from '../rules/describe.ts';
import type { DomainChange, RuleDiff } from '../rules/diff.ts';
import type { CounterFate } from '../rules/places.ts';
import { shown } from '../rules/problem.ts';
import type { Rerouted } from '../rules/rerouted.ts';
import type { Rule } from '../rules/tree.ts';
import type { Paint } from './paint.ts';

/** The comparison for people. */
export function diffText({ added, removed, changed, rerouted, domains, spends }: RuleDiff, paint: Paint): string {
  const lines: string[] = [];
  for (const { rule, before, counters } of added) {
    const from = before ? `its descriptors met ${before.path} before` : 'its descriptors met no rule before';
    lines.push(paint.good(`+ ${shortly(rule)}`), `    ${from}${fateText(counters)}`);
  }
  for (const { rule, after } of removed) {
    const to = after ? `its descriptors meet ${after.path} now` : 'its descriptors meet no rule now';
    lines.push(paint.bad(`- ${shortly(rule)}`), `    ${to}`);
  }
  for (const { before, after, counters } of changed)
    lines.push(
      paint.strong(`~ ${after.path}`),
      `    was ${fully(before)}`,
      `    now ${fully(after)}${fateText(counters)}`,
    );
  for (const one of rerouted) lines.push(paint.strong(`~ ${one.node}`), `    ${reroutedText(one)}`);
  for (const { name, kind } of domains) lines.push(paint.strong(`~ domain ${name}: ${domainTexts[kind]}`));
  for (const [domain, { before, after }] of spends)
    lines.push(paint.strong(`~ domain ${domain}: spend ${before ?? 'as SPEND says'} -> ${after ?? 'as SPEND says'}`));
  const sum = `${added.length} added, ${removed.length} removed, ${changed.length} changed`;
  return [...lines, rerouted.length === 0 ? sum : `${sum}, ${rerouted.length} rerouted`].join('\n');
}

const domainTexts = {
  added: 'new',
  removed: 'gone',
  ids: 'other entries are ids of requests (not_counted)',
} as const satisfies Record<DomainChange['kind'], string>;

/** Others that are named. */
const MAX_NAMED_OTHERS = 5;

function reroutedText({ kind, node, others, isLiteral }: Rerouted): string {
  const more = others.length > MAX_NAMED_OTHERS ? ` and ${others.length - MAX_NAMED_OTHERS} more` : '';
  const named = others.slice(0, MAX_NAMED_OTHERS).map(shown).join(', ') + more;
  const whose = isLiteral ? `descriptors with the very text of ${shown(node)}, the * included,` : 'its descriptors';
  switch (kind) {
    case 'hides':
      return `is new: ${whose} no longer meet ${named}`;
    case 'uncovers':
      return `is gone: ${whose} may meet ${named} now`;
    case 'precedes':
      return `is held against descriptors before ${named} now`;
  }
}

const shortly = ({ path, limits, unlimited }: Rule): string =>
  `${path}: ${unlimited ? 'unlimited' : limits.map(describeLimit).join(', ')}`;

/** All that decides, without path and place. */
const fully = ({ place: _, ...rule }: Rule): string =>
  describeRuleFully({ ...rule, place: undefined })
    .split('\n')
    .map((line) => line.slice(rule.path.length + 2))
    .join('; ');

function fateText(counters: readonly CounterFate[]): string {
  if (counters.length === 0) return '';
  if (counters.every(({ isKept }) => isKept)) return '; counters are kept';
  if (counters.every(({ isKept }) => !isKept)) return '; counters start anew';
  const anew = counters.filter(({ isKept }) => !isKept).map(({ limit }) => describeLimit(limit));
  return `; counters are kept, but for ${anew.join(', ')}: they start anew`;
}
