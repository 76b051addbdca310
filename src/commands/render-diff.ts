import { describeLimit, describeRuleFully } from '../rules/describe.ts';
import type { CounterFate, RuleDiff } from '../rules/diff.ts';
import type { Rule } from '../rules/tree.ts';
import type { Paint } from './paint.ts';

/** The comparison for people. */
export function diffText({ added, removed, changed, spends }: RuleDiff, paint: Paint): string {
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
  for (const [domain, { before, after }] of spends)
    lines.push(paint.strong(`~ domain ${domain}: spend ${before ?? 'as SPEND says'} -> ${after ?? 'as SPEND says'}`));
  const sum = `${added.length} added, ${removed.length} removed, ${changed.length} changed`;
  return [...lines, sum].join('\n');
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
