import { count, counted, moment, share } from '../../../base/texts.ts';
import type { RuleFigures } from '../figures.ts';
import { type ReportSource, readableKey, spanText } from '../report.ts';
import { foreign, html, type Markup } from './markup.ts';
import { type KeyRow, keyOutcome, type ReportData, type RuleData } from './report-data.ts';
import { outcomes, type RequestOutcome } from './time-axis.ts';
import { HEIGHT, round, STACK, timeline } from './timeline.ts';

/** Maximum number of rules with plots; others are in a table. */
const MAX_PLOTTED_RULES = 25;

/** Renders the keys over all rules, then the rules. */
export function detailSections(report: PageSource, names: Readonly<Record<RequestOutcome, string>>): Markup {
  const rules = orderRules(report);
  const [plotted, others] = [rules.slice(0, MAX_PLOTTED_RULES), rules.slice(MAX_PLOTTED_RULES)];
  return html`${keysSection(report, rules)}
<section class="rules"><h2>Rules</h2>
${rules.length === 0 ? html`<p>No request met a rule.</p>` : undefined}
${plotted.map((rule) => ruleSection(rule, report, names))}
${others.length > 0 && otherRules(others, report.data.isChange)}</section>`;
}

/** Maximum number of keys listed for a rule. */
const MAX_RULE_KEYS = 5;

function ruleSection(
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
  const keys = topKeys(
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

type ShownLimit = NonNullable<RuleData['after']>;

function limitsText(before: ShownLimit | undefined, after: ShownLimit | undefined, isChange: boolean): Markup {
  if (!isChange) return after ? html`${limitText(after)}` : html`unlimited`;
  const [old, now] = [before, after].map((limit) => (limit ? limitText(limit) : 'no limit')) as [string, string]; // two in, two out
  return old === now ? html`${now}, as before` : html`<s>${old}</s> → <b>${now}</b>`;
}

/**
 * Renders first refusal, longest lockout, and the peak of admitted hits in any window, the last also under the previous
 * rules.
 */
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

/** Renders a peak next to its limit; a peak above the limit is a burst around a window boundary, or a full bucket. */
function peakBar({ hits, limit, key }: NonNullable<RuleFigures['peak']>, side?: string): Markup {
  const scale = Math.max(hits, limit, 1) * 1.1;
  const x = (value: number): number => Math.round((1000 * value) / scale) / 10;
  const over = hits > limit ? html`, ${share(hits - limit, limit)} above the limit` : html``;
  return html`<span class="bar wide">${side !== undefined && html`<em>${side}</em>`}<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="passed" width="${x(Math.min(hits, limit))}" height="8"/>${hits > limit && html`<rect class="over" x="${x(limit)}" width="${Math.round(10 * (x(hits) - x(limit))) / 10}" height="8"/>`}<path class="tick" d="M${x(limit)} 0V8"/></svg><span>${count(hits)} with a limit of ${count(limit)}${over} <span class="of">${foreign(readableKey(key))}</span></span></span>`;
}

/** The rules without plots. */
function otherRules(rules: readonly RuleReport[], isChange: boolean): Markup {
  return html`<h3>Other rules</h3><div class="scroll" tabindex="0" role="region" aria-label="Other rules"><table><thead><tr><th scope="col">Rule</th><th scope="col" class="n">Requests</th>${isChange && html`<th scope="col" class="n">Newly refused</th><th scope="col" class="n">Newly admitted</th>`}<th scope="col" class="n">Refused</th></tr></thead><tbody>${rules.map(({ path, sums }) => html`<tr><th scope="row">${foreign(path)}</th><td class="n">${count(outcomes.reduce((sum, one) => sum + sums[one], 0))}</td>${isChange && html`<td class="n">${count(sums.newly_refused)}</td><td class="n">${count(sums.spared)}</td>`}<td class="n">${count(sums.refused + sums.newly_refused)}</td></tr>`)}</tbody></table></div>`;
}

interface Bin {
  /** Bounds of the bin, for keys whose busiest window had more than `above` and at most `to` hits. */
  readonly above: number;
  readonly to: number;
  readonly keys: Record<RequestOutcome, number>;
}

/** Renders the number of keys by the hits of their busiest window, and by outcome. */
function distribution(
  rows: Iterable<KeyRow>,
  limits: { readonly before: ShownLimit | undefined; readonly after: ShownLimit | undefined },
  names: Readonly<Record<RequestOutcome, string>>,
): Markup {
  const bins = buildBins(rows, [limits.before?.limit ?? 0, limits.after?.limit ?? 0]);
  const most = Math.max(...bins.map(binTotal), 1);
  const columns = bins.map((bin, at) => column({ ...bin, at }, most, names));
  const summary = bins.flatMap((bin) =>
    binTotal(bin) > 0 ? [`${counted(binTotal(bin), 'key')} with ${rangeText(bin)}`] : [],
  );
  const { before, after } = limits;
  const isSame = before?.limit === after?.limit || !before || !after;
  return html`<div class="bins">
<div class="area"><svg viewBox="0 0 ${bins.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Keys by the hits in their busiest window: ${summary.join(', ') || 'none'}">${columns.map(({ bars }) => bars)}<path class="base" d="M0 ${HEIGHT}H${bins.length}"/></svg>
${bins.map((bin, at) => binTotal(bin) > 0 && html`<b style="left:${round((100 * (at + 0.5)) / bins.length)}%;bottom:${round(columns[at]?.height ?? 0)}%">${short(binTotal(bin))}</b>`)}
${isSame ? (after ?? before) && marker(bins, { kind: 'after', name: 'limit', limit: (after ?? before)?.limit ?? 0 }) : [marker(bins, { kind: 'before', name: 'before', limit: before.limit }), marker(bins, { kind: 'after', name: 'after', limit: after.limit })]}</div>
<div class="x">${bins.map((bin) => html`<span>${bin.to - bin.above === 1 ? count(bin.to) : `≤${short(bin.to)}`}</span>`)}</div>
</div>
<p class="unit">keys, by the hits in their busiest window</p>`;
}

/** Renders a column with a segment for each outcome, and returns its height. */
function column(
  { at, ...bin }: Bin & { readonly at: number },
  most: number,
  names: Readonly<Record<RequestOutcome, string>>,
) {
  let height = 0;
  const bars = STACK.flatMap((outcome) => {
    const keys = bin.keys[outcome];
    if (keys === 0) return [];
    const part = Math.max(MIN_HEIGHT, ((HEIGHT - HEADROOM) * keys) / most);
    height += part;
    const what = outcome === 'passed' ? 'never refused' : names[outcome];
    return [
      html`<rect class="${outcome}" x="${round(at + 0.06)}" y="${round(HEIGHT - height)}" width=".88" height="${round(part)}"><title>${counted(keys, 'key')} ${what}, with ${rangeText(bin)}</title></rect>`,
    ];
  });
  return { bars, height };
}

/** Space for the number above the highest column, and for the names of the limits. */
const HEADROOM = 32;
/** Minimum height of a visible segment. */
const MIN_HEIGHT = 3;

/** Multiple of the busiest key's hits above which a limit is not drawn to scale. */
const FAR = 20;

/** Renders a line at a limit's position among the columns, with a linear scale within each. */
function marker(
  bins: readonly Bin[],
  { kind, name, limit }: { readonly kind: 'before' | 'after'; readonly name: string; readonly limit: number },
): Markup | false {
  const at = bins.findIndex(({ to }) => limit <= to);
  const bin = bins[at];
  const place = bin ? at + (limit - bin.above) / (bin.to - bin.above) : bins.length;
  const left = Math.min(99.5, (100 * place) / bins.length);
  return html`<div class="marker ${kind}${left > 80 && ' left'}" style="left:${Math.round(left * 10) / 10}%"><span>${name} ${count(limit)}</span></div>`;
}

/** @param limits  included in the bins unless far above the busiest key */
function buildBins(rows: Iterable<KeyRow>, limits: readonly number[]): readonly Bin[] {
  const all = [...rows];
  const busiest = all.reduce((most, row) => Math.max(most, row.busiest), 1);
  const highest = Math.max(busiest, ...limits.filter((limit) => limit <= FAR * busiest));
  const bins: Bin[] = [];
  for (let above = 0; above < highest; above = bins.at(-1)?.to ?? highest)
    bins.push({ above, to: nextBound(above), keys: { passed: 0, spared: 0, newly_refused: 0, refused: 0 } });
  for (const row of all) {
    const bin = bins.find(({ to }) => row.busiest <= to);
    if (bin) bin.keys[keyOutcome(row)]++;
  }
  return bins;
}

/** Next of 1, 2, 5, 10, 20, 50 and so on. */
function nextBound(bound: number): number {
  if (bound === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(bound) + 1e-9);
  const first = Math.round(bound / power);
  return (first === 1 ? 2 : first === 2 ? 5 : 10) * power;
}

const binTotal = ({ keys }: Bin): number => outcomes.reduce((sum, outcome) => sum + keys[outcome], 0);

const rangeText = ({ above, to }: Bin): string =>
  to - above === 1 ? counted(to, 'hit') : `${count(above + 1)} to ${count(to)} hits`;

/** `9,500`, `34k`, `5M`. */
function short(number: number): string {
  if (number < 10_000) return count(number);
  const [unit, letter] = number < 1_000_000 ? [1_000, 'k'] : [1_000_000, 'M'];
  const units = number / unit;
  return `${units < 10 ? Math.round(units * 10) / 10 : Math.round(units)}${letter}`;
}

/** Maximum number of keys in a list over all rules, and of those shown before it is expanded. */
const MAX_LISTED_KEYS = 100;
const MAX_SHOWN_KEYS = 10;

/** Renders the keys that a change hurts most, or that are refused most. */
function keysSection({ data }: PageSource, rules: readonly RuleReport[]): Markup {
  const all = rules.flatMap((rule) => Array.from(rule.keys.rows, ([name, row]): ListedKey => ({ name, row, rule })));
  const lists: readonly (readonly [title: string, empty: string, keys: readonly ListedKey[]])[] = data.isChange
    ? [
        [
          'Keys newly hurt',
          'No key is newly hurt.',
          topKeys(all, ({ row }) => (keyOutcome(row) === 'newly_refused' ? row.after : 0)),
        ],
        [
          'Keys refused more than before',
          'No key that was refused before is refused more often.',
          topKeys(all, ({ row }) => (keyOutcome(row) === 'refused' ? row.after - row.before : 0)),
        ],
        [
          'Keys newly spared',
          'No key is newly spared.',
          topKeys(all, ({ row }) => (keyOutcome(row) === 'spared' ? row.before : 0)),
        ],
      ]
    : [['Keys refused most', 'No key is refused.', topKeys(all, ({ row }) => row.after)]];
  const shown = lists.filter(([, , keys], at) => at === 0 || keys.length > 0);
  return html`${shown.map((list) => listSection(list, data.isChange))}`;
}

function listSection(
  [title, empty, keys]: readonly [title: string, empty: string, keys: readonly ListedKey[]],
  isChange: boolean,
): Markup {
  const [first, more] = [keys.slice(0, MAX_SHOWN_KEYS), keys.slice(MAX_SHOWN_KEYS, MAX_LISTED_KEYS)];
  const left = keys.length - first.length - more.length;
  return html`<section><h2>${title}<span class="count">${count(keys.length)}</span></h2>
${keys.length === 0 ? html`<p>${empty}</p>` : keyTable(first, { title, isChange, hasRule: true })}
${more.length > 0 && html`<details><summary>${count(more.length)} more</summary>${keyTable(more, { title: `${title}, continued`, isChange, hasRule: true })}</details>`}
${left > 0 && html`<p class="unit">and ${counted(left, 'further key')}</p>`}</section>`;
}

const topKeys = (keys: readonly ListedKey[], by: (key: ListedKey) => number): readonly ListedKey[] =>
  keys.filter((key) => by(key) > 0).sort((one, other) => by(other) - by(one) || (one.name < other.name ? -1 : 1));

/** @param title  title of the table */
function keyTable(
  keys: readonly ListedKey[],
  { title, isChange, hasRule }: { readonly title: string; readonly isChange: boolean; readonly hasRule: boolean },
): Markup {
  const refusedHeads = isChange
    ? html`<th scope="col" class="n">Refused before</th><th scope="col" class="n">Refused now</th>`
    : html`<th scope="col" class="n">Refused</th>`;
  const rows = keys.map(
    ({ name, row, rule }) => html`<tr><th scope="row">${foreign(name)}</th>
${hasRule && html`<td data-name="Rule">${foreign(rule.path)}</td>`}
<td class="n" data-name="Requests">${count(row.requests)}</td>
${isChange && html`<td class="n" data-name="Refused before">${count(row.before)}</td>`}
<td class="n" data-name="${isChange ? 'Refused now' : 'Refused'}">${count(row.after)}</td>
<td data-name="Share refused">${shareBar(row)}</td>
<td class="n" data-name="Busiest window">${count(row.busiest)}</td></tr>`,
  );
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${title}"><table>
<thead><tr><th scope="col">Key</th>${hasRule && html`<th scope="col">Rule</th>`}<th scope="col" class="n">Requests</th>${refusedHeads}<th scope="col">Share refused</th><th scope="col" class="n">Busiest window</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
}

/** The share of a key's requests that is refused, before and after the change. */
function shareBar({ requests, before, after }: KeyRow): Markup {
  const width = (part: number): string => String(Math.round((1000 * part) / requests) / 10);
  const [both, more, less] = [Math.min(before, after), Math.max(after - before, 0), Math.max(before - after, 0)];
  return html`<span class="bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="passed" width="100" height="8"/><rect class="refused" width="${width(both)}" height="8"/><rect class="newly_refused" x="${width(both)}" width="${width(more)}" height="8"/><rect class="spared" x="${width(both)}" width="${width(less)}" height="8"/></svg>${share(after, requests)}</span>`;
}

/** The data of a report's page. */
export interface PageSource extends ReportSource {
  /** File names as given by the operator. */
  readonly names: { readonly rules: string; readonly against: string | undefined; readonly traffic: readonly string[] };
  readonly data: ReportData;
}

/** The data that the page shows for one rule. */
interface RuleReport extends RuleData {
  readonly path: string;
  readonly sums: Readonly<Record<RequestOutcome, number>>;
  readonly keySums: Readonly<Record<RequestOutcome, number>>;
  /** Figures under the rules; undefined if no descriptor matched such a rule. */
  readonly figures: RuleFigures | undefined;
  /** Figures under the compared rules. */
  readonly against: RuleFigures | undefined;
}

/** A key, and the rule that limits it. */
interface ListedKey {
  readonly name: string;
  readonly row: KeyRow;
  readonly rule: RuleReport;
}

/** Orders the rules by newly refused requests, descending. */
function orderRules({ data, figures }: PageSource): readonly RuleReport[] {
  return Array.from(data.rules, ([path, rule]): RuleReport => {
    const sums = emptySums();
    for (const column of rule.series.columns()) for (const outcome of outcomes) sums[outcome] += column[outcome];
    const keySums = emptySums();
    for (const row of rule.keys.rows.values()) keySums[keyOutcome(row)]++;
    const [own, against] = [figures.rules, figures.against].map((side) => side?.rules.get(path));
    return { ...rule, path, sums, keySums, figures: own, against };
  }).sort(
    (one, other) =>
      other.sums.newly_refused - one.sums.newly_refused ||
      other.sums.spared - one.sums.spared ||
      other.sums.refused - one.sums.refused ||
      (one.path < other.path ? -1 : 1),
  );
}

const emptySums = (): Record<RequestOutcome, number> => ({ passed: 0, spared: 0, newly_refused: 0, refused: 0 });

const UNITS = [
  [604_800_000, 'week'],
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
] as const;

/** `60 a minute`, `100 in 10 seconds`. */
function limitText({ limit, windowMs }: ShownLimit): string {
  const [unitMs, unit] = UNITS.find(([ms]) => windowMs % ms === 0) ?? [1, 'ms'];
  const units = windowMs / unitMs;
  if (units !== 1) return `${count(limit)} in ${count(units)} ${unit}${unit === 'ms' ? '' : 's'}`;
  return `${count(limit)} ${unit === 'hour' ? 'an' : 'a'} ${unit}`;
}
