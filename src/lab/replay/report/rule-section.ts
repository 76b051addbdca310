import type { RuleFigures } from '../figures.ts';
import { readableKey, spanText } from '../report.ts';
import { distribution } from './distribution.ts';
import { keyTable, mostOf } from './keys-section.ts';
import { foreign, html, type Markup } from './markup.ts';
import type { PageSource, RuleReport } from './page-source.ts';
import type { ShownLimit } from './report-data.ts';
import { count, counted, limitText, moment, share } from './texts.ts';
import { outcomes, type RequestOutcome } from './time-axis.ts';
import { timeline } from './timeline.ts';

/** The most keys that are listed for a rule. */
const MAX_RULE_KEYS = 5;

export function ruleSection(
  rule: RuleReport,
  { data, figures }: PageSource,
  names: Readonly<Record<RequestOutcome, string>>,
): Markup {
  const { path, sums, keySums, before, after } = rule;
  const requests = outcomes.reduce((sum, outcome) => sum + sums[outcome], 0);
  const facts = data.isChange
    ? [
        [
          count(sums.newly_refused),
          'newly refused',
          `${share(sums.newly_refused, requests)} of ${counted(requests, 'request')}`,
        ],
        [
          count(keySums.newly_refused),
          keySums.newly_refused === 1 ? 'key newly hurt' : 'keys newly hurt',
          `of ${counted(rule.keys.rows.size, 'key')}`,
        ],
        [count(sums.spared), 'newly admitted', `${counted(keySums.spared, 'key')} spared`],
        [count(sums.refused), 'refused by both', counted(keySums.refused, 'key')],
      ]
    : [
        [count(sums.refused), 'refused', `${share(sums.refused, requests)} of ${counted(requests, 'request')}`],
        [
          count(keySums.refused),
          keySums.refused === 1 ? 'key refused' : 'keys refused',
          `of ${counted(rule.keys.rows.size, 'key')}`,
        ],
      ];
  const keys = mostOf(
    Array.from(rule.keys.rows, ([name, row]) => ({ name, row, rule })),
    ({ row }) => row.after,
  ).slice(0, MAX_RULE_KEYS);
  return html`<article><h3>${foreign(path)}</h3>
<p class="limits">${limitsText(before, after, data.isChange)}</p>
<ul class="facts">${facts.map(([value = '', name = '', more = '']) => html`<li><b>${value}</b> ${name}<span>${more}</span></li>`)}</ul>
<div class="plots"><figure><figcaption>Over time</figcaption>${timeline(rule.series, data.axis, names)}</figure>
${rule.keys.rows.size > 0 && html`<figure><figcaption>Keys by how busy they are</figcaption>${distribution(rule.keys.rows.values(), rule, names)}</figure>`}</div>
${ruleFacts(rule, figures.against !== undefined)}
${keys.length > 0 && html`<details><summary>Keys refused most</summary>${keyTable(keys, { title: `Keys of ${path} refused most`, isChange: data.isChange, hasRule: false })}</details>`}</article>`;
}

function limitsText(before: ShownLimit | undefined, after: ShownLimit | undefined, isChange: boolean): Markup {
  if (!isChange) return after ? html`${limitText(after)}` : html`unlimited`;
  const [old, now] = [before, after].map((limit) => (limit ? limitText(limit) : 'no limit')) as [string, string]; // two in, two out
  return old === now ? html`${now}, as before` : html`<s>${old}</s> → <b>${now}</b>`;
}

/** First refusal, longest lockout, and the most hits admitted in any window; the last also under the rules before. */
function ruleFacts({ figures, against }: RuleReport, isCompared: boolean): Markup | undefined {
  const last = isCompared ? against : figures;
  const { firstRefusal, longestLockOut } = last ?? {};
  const peaks = isCompared
    ? [figures?.peak && peakBar(figures.peak, 'before'), against?.peak && peakBar(against.peak, 'after')]
    : [figures?.peak && peakBar(figures.peak)];
  const facts = [
    peaks.some((one) => one) && html`<div><dt>Most admitted in any window</dt><dd>${peaks}</dd></div>`,
    firstRefusal &&
      html`<div><dt>First refusal</dt><dd>${moment(firstRefusal.timeMs)}<span class="of">${foreign(readableKey(firstRefusal.key))}</span></dd></div>`,
    longestLockOut && longestLockOut.ms > 0
      ? html`<div><dt>Longest lockout of a key</dt><dd>${spanText(longestLockOut.ms)}, from ${moment(longestLockOut.timeMs)}<span class="of">${foreign(readableKey(longestLockOut.key))}</span></dd></div>`
      : undefined,
  ];
  return facts.some((one) => one) ? html`<dl class="rule-facts">${facts}</dl>` : undefined;
}

/** A peak next to its limit: a peak above the limit is a burst around a window boundary, or a full bucket. */
function peakBar({ hits, limit, key }: NonNullable<RuleFigures['peak']>, side?: string): Markup {
  const scale = Math.max(hits, limit, 1) * 1.1;
  const x = (value: number): number => Math.round((1000 * value) / scale) / 10;
  const over = hits > limit ? html`, ${share(hits - limit, limit)} above the limit` : html``;
  return html`<span class="bar wide">${side !== undefined && html`<em>${side}</em>`}<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="passed" width="${x(Math.min(hits, limit))}" height="8"/>${hits > limit && html`<rect class="over" x="${x(limit)}" width="${Math.round(10 * (x(hits) - x(limit))) / 10}" height="8"/>`}<path class="tick" d="M${x(limit)} 0V8"/></svg><span>${count(hits)} with a limit of ${count(limit)}${over} <span class="of">${foreign(readableKey(key))}</span></span></span>`;
}

/** The rules without plots. */
export function otherRules(rules: readonly RuleReport[], isChange: boolean): Markup {
  return html`<h3>Other rules</h3><div class="scroll" tabindex="0" role="region" aria-label="Other rules"><table><thead><tr><th scope="col">Rule</th><th scope="col" class="n">Requests</th>${isChange && html`<th scope="col" class="n">Newly refused</th><th scope="col" class="n">Newly admitted</th>`}<th scope="col" class="n">Refused</th></tr></thead><tbody>${rules.map(({ path, sums }) => html`<tr><th scope="row">${foreign(path)}</th><td class="n">${count(outcomes.reduce((sum, one) => sum + sums[one], 0))}</td>${isChange && html`<td class="n">${count(sums.newly_refused)}</td><td class="n">${count(sums.spared)}</td>`}<td class="n">${count(sums.refused + sums.newly_refused)}</td></tr>`)}</tbody></table></div>`;
}
