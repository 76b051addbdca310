import { present } from '../../../base/group.ts';
import { count, counted, moment, share } from '../../../base/texts.ts';
import { decimal, showMoney } from '../../../engine/algorithms/money.ts';
import type { RuleFigures } from '../figures.ts';
import { amountText, type ReportSource, readableKey, spanText } from '../report.ts';
import { foreign, html, type Markup } from './markup.ts';
import { type KeyRow, keyOutcome, type ReportData, type RuleData } from './report-data.ts';
import { addOutcomes, noOutcomes, type OutcomeCounts, sumOutcomes } from './time-axis.ts';
import { HEIGHT, type OutcomeNames, round, STACK, timeline } from './timeline.ts';

/** Maximum number of rules with plots; others are in a table. */
const MAX_PLOTTED_RULES = 25;

/** Renders the keys over all rules, then the rules. */
export function detailSections(report: PageSource, names: OutcomeNames): Markup {
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

function ruleSection(rule: RuleReport, { data, figures }: PageSource, names: OutcomeNames): Markup {
  const { path, before, after, keys } = rule;
  const all = Array.from(keys.all, ([name, row]) => ({ name, row, rule }));
  const most = topKeys(all, ({ row }) => row.after).slice(0, MAX_RULE_KEYS);
  return html`<article><h3>${foreign(path)}</h3>
<p class="limits">${limitsText(before, after, data.isChange)}</p>
<ul class="facts">${ruleCounts(rule, data.isChange).map(([number, name, more]) => html`<li><b>${count(number)}</b> ${name}<span>${more}</span></li>`)}</ul>
<div class="plots"><figure><figcaption>Over time</figcaption>${timeline(rule.series, data.axis, names)}</figure>
${keys.all.size > 0 && html`<figure><figcaption>Keys by how busy they are</figcaption>${distribution(keys.all.values(), rule, names)}</figure>`}</div>
${ruleFacts(rule, figures.against !== undefined)}
${most.length > 0 && html`<details><summary>Keys refused most</summary>${keyTable(most, { title: `Keys of ${path} refused most`, isChange: data.isChange, hasRule: false })}</details>`}</article>`;
}

/** Numbers of a rule, each with its name and a remark. */
function ruleCounts(
  { sums, keySums, keys }: RuleReport,
  isChange: boolean,
): readonly (readonly [number: number, name: string, more: string])[] {
  const requests = sumOutcomes(sums);
  const ofRequests = (part: number): string => `${share(part, requests)} of ${counted(requests, 'request')}`;
  const ofKeys = `of ${counted(keys.all.size, 'key')}`;
  const keysText = (number: number): string => (number === 1 ? 'key' : 'keys');
  return isChange
    ? [
        [sums.newly_refused, 'newly refused', ofRequests(sums.newly_refused)],
        [keySums.newly_refused, `${keysText(keySums.newly_refused)} newly hurt`, ofKeys],
        [sums.spared, 'newly admitted', `${counted(keySums.spared, 'key')} spared`],
        [sums.refused, 'refused by both', counted(keySums.refused, 'key')],
      ]
    : [
        [sums.refused, 'refused', ofRequests(sums.refused)],
        [keySums.refused, `${keysText(keySums.refused)} refused`, ofKeys],
      ];
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
function peakBar({ hits, limit, key, currency }: NonNullable<RuleFigures['peak']>, side?: string): Markup {
  const scale = Math.max(hits, limit, 1) * 1.1;
  const x = (value: number): number => Math.round((1000 * value) / scale) / 10;
  const over = hits > limit ? html`, ${share(hits - limit, limit)} above the limit` : html``;
  return html`<span class="bar wide">${side !== undefined && html`<em>${side}</em>`}<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="passed" width="${x(Math.min(hits, limit))}" height="8"/>${hits > limit && html`<rect class="over" x="${x(limit)}" width="${Math.round(10 * (x(hits) - x(limit))) / 10}" height="8"/>`}<path class="tick" d="M${x(limit)} 0V8"/></svg><span>${amountText(hits, currency)} with a limit of ${amountText(limit, currency)}${over} <span class="of">${foreign(readableKey(key))}</span></span></span>`;
}

/** The rules without plots. */
const otherRules = (rules: readonly RuleReport[], isChange: boolean): Markup =>
  html`<h3>Other rules</h3>${dataTable(
    'Other rules',
    rules,
    present([
      { head: 'Rule', cell: ({ path }) => foreign(path) },
      numbers('Requests', ({ sums }) => sumOutcomes(sums)),
      isChange && numbers('Newly refused', ({ sums }) => sums.newly_refused),
      isChange && numbers('Newly admitted', ({ sums }) => sums.spared),
      numbers('Refused', ({ sums }) => sums.refused + sums.newly_refused),
    ]),
  )}`;

interface TableColumn<T> {
  readonly head: string;
  readonly isNumber?: true;
  readonly cell: (row: T) => Markup | string;
}

const numbers = <T>(head: string, of: (row: T) => number): TableColumn<T> => ({
  head,
  isNumber: true,
  cell: (row) => count(of(row)),
});

/** A table whose first column names its rows. */
function dataTable<T>(label: string, rows: readonly T[], columns: readonly TableColumn<T>[]): Markup {
  const kind = ({ isNumber }: TableColumn<T>) => isNumber === true && { markup: ' class="n"' };
  const [first, ...others] = columns;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table>
<thead><tr>${columns.map((one) => html`<th scope="col"${kind(one)}>${one.head}</th>`)}</tr></thead>
<tbody>${rows.map(
    (row) => html`<tr><th scope="row">${first?.cell(row)}</th>
${others.map((one) => html`<td${kind(one)} data-name="${one.head}">${one.cell(row)}</td>\n`)}</tr>`,
  )}</tbody></table></div>`;
}

interface Bin {
  /** Bounds of the bin, for keys whose busiest window had more than `above` and at most `to` hits. */
  readonly above: number;
  readonly to: number;
  readonly keys: OutcomeCounts;
}

/** Renders the number of keys by the hits of their busiest window, and by outcome. */
function distribution(
  rows: Iterable<KeyRow>,
  { before, after }: Pick<RuleData, 'before' | 'after'>,
  names: OutcomeNames,
): Markup {
  const { currency } = after ?? before ?? {};
  const bins = buildBins(rows, [before?.limit ?? 0, after?.limit ?? 0], currency === undefined ? 1 : CENT);
  const what = currency === undefined ? 'hits' : 'cost';
  const totals = bins.map(({ keys }) => sumOutcomes(keys));
  const most = Math.max(...totals, 1);
  const columns = bins.map((bin, at) => column({ ...bin, at }, most, { names, currency }));
  const summary = bins.flatMap((bin, at) =>
    totals[at] ? `${counted(totals[at], 'key')} with ${rangeText(bin, currency)}` : [],
  );
  const only = before && after && before.limit !== after.limit ? undefined : (after ?? before);
  const limits = only
    ? marker(bins, 'after', 'limit', only)
    : [before && marker(bins, 'before', 'before', before), after && marker(bins, 'after', 'after', after)];
  return html`<div class="bins">
<div class="area"><svg viewBox="0 0 ${bins.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Keys by the ${what} in their busiest window: ${summary.join(', ') || 'none'}">${columns.map(({ bars }) => bars)}<path class="base" d="M0 ${HEIGHT}H${bins.length}"/></svg>
${totals.map((total, at) => total > 0 && html`<b style="left:${round((100 * (at + 0.5)) / bins.length)}%;bottom:${round(columns[at]?.height ?? 0)}%">${short(total)}</b>`)}
${limits}</div>
<div class="x">${bins.map((bin) => html`<span>${boundText(bin, currency)}</span>`)}</div>
</div>
<p class="unit">keys, by the ${what} in their busiest window${currency !== undefined && html`, in ${currency}`}</p>`;
}

/** Renders a column with a segment for each outcome, and returns its height. */
function column(
  { at, ...bin }: Bin & { readonly at: number },
  most: number,
  { names, currency }: { readonly names: OutcomeNames; readonly currency: string | undefined },
) {
  let height = 0;
  const bars = STACK.map((outcome) => {
    const keys = bin.keys[outcome];
    if (keys === 0) return undefined;
    const part = Math.max(MIN_HEIGHT, ((HEIGHT - HEADROOM) * keys) / most);
    height += part;
    const what = outcome === 'passed' ? 'never refused' : names[outcome];
    return html`<rect class="${outcome}" x="${round(at + 0.06)}" y="${round(HEIGHT - height)}" width=".88" height="${round(part)}"><title>${counted(keys, 'key')} ${what}, with ${rangeText(bin, currency)}</title></rect>`;
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
function marker(bins: readonly Bin[], kind: 'before' | 'after', name: string, { limit, currency }: ShownLimit): Markup {
  const at = bins.findIndex(({ to }) => limit <= to);
  const bin = bins[at];
  const place = bin ? at + (limit - bin.above) / (bin.to - bin.above) : bins.length;
  const left = Math.min(99.5, (100 * place) / bins.length);
  return html`<div class="marker ${kind}${left > 80 && ' left'}" style="left:${Math.round(left * 10) / 10}%"><span>${name} ${amountText(limit, currency)}</span></div>`;
}

/** In the billionths of budgets. */
const CENT = 10_000_000;

/**
 * @param limits  included in the bins unless far above the busiest key
 * @param first   the bound of the first bin
 */
function buildBins(rows: Iterable<KeyRow>, limits: readonly number[], first: number): readonly Bin[] {
  const all = [...rows];
  const busiest = all.reduce((most, row) => Math.max(most, row.busiest), 1);
  const highest = Math.max(busiest, ...limits.filter((limit) => limit <= FAR * busiest));
  const bins: Bin[] = [];
  for (let above = 0; above < highest; above = bins.at(-1)?.to ?? highest)
    bins.push({ above, to: above === 0 ? first : nextBound(above), keys: noOutcomes() });
  for (const row of all) {
    const bin = bins.find(({ to }) => row.busiest <= to);
    if (bin) bin.keys[keyOutcome(row)]++;
  }
  return bins;
}

/** Next of 1, 2, 5, 10, 20, 50 and so on. */
function nextBound(bound: number): number {
  const power = 10 ** Math.floor(Math.log10(bound) + 1e-9);
  const digit = Math.round(bound / power);
  return (digit === 1 ? 2 : digit === 2 ? 5 : 10) * power;
}

function rangeText({ above, to }: Bin, currency: string | undefined): string {
  if (currency !== undefined) return `up to ${showMoney(to, currency)}`;
  return to - above === 1 ? counted(to, 'hit') : `${count(above + 1)} to ${count(to)} hits`;
}

/** The label of a bin: `1`, `≤20`, and of a budget `≤0.05`. */
function boundText({ above, to }: Bin, currency: string | undefined): string {
  if (currency !== undefined) return `≤${to < 100 * CENT ? decimal(to) : short(to / (100 * CENT))}`;
  return to - above === 1 ? count(to) : `≤${short(to)}`;
}

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

interface KeyList {
  readonly title: string;
  /** Shown instead of a table without keys. */
  readonly empty: string;
  readonly keys: readonly ListedKey[];
}

/** Renders the keys that a change hurts most, or that are refused most. */
function keysSection({ data: { isChange } }: PageSource, rules: readonly RuleReport[]): Markup {
  const all = rules.flatMap((rule) => Array.from(rule.keys.all, ([name, row]): ListedKey => ({ name, row, rule })));
  const list = (title: string, empty: string, by: (row: KeyRow) => number): KeyList => ({
    title,
    empty,
    keys: topKeys(all, ({ row }) => by(row)),
  });
  const [first, ...others] = isChange
    ? [
        list('Keys newly hurt', 'No key is newly hurt.', (row) => (row.before > 0 ? 0 : row.after)),
        list('Keys refused more than before', '', (row) => (row.before > 0 ? row.after - row.before : 0)),
        list('Keys newly spared', '', (row) => (row.after > 0 ? 0 : row.before)),
      ]
    : [list('Keys refused most', 'No key is refused.', (row) => row.after)];
  const shown = [first, ...others.filter(({ keys }) => keys.length > 0)];
  return html`${present(shown).map((one) => listSection(one, isChange))}`;
}

function listSection({ title, empty, keys }: KeyList, isChange: boolean): Markup {
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
const keyTable = (
  keys: readonly ListedKey[],
  { title, isChange, hasRule }: { readonly title: string; readonly isChange: boolean; readonly hasRule: boolean },
): Markup =>
  dataTable(
    title,
    keys,
    present([
      { head: 'Key', cell: ({ name }) => foreign(name) },
      hasRule && { head: 'Rule', cell: ({ rule }) => foreign(rule.path) },
      numbers('Requests', ({ row }) => row.requests),
      isChange && numbers('Refused before', ({ row }) => row.before),
      numbers(isChange ? 'Refused now' : 'Refused', ({ row }) => row.after),
      { head: 'Share refused', cell: ({ row }) => shareBar(row) },
      {
        head: 'Busiest window',
        isNumber: true,
        cell: ({ row, rule }) => amountText(row.busiest, (rule.after ?? rule.before)?.currency),
      },
    ]),
  );

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
type RuleReport = Readonly<ReturnType<typeof orderRules>[number]>;

/** A key, and the rule that limits it. */
interface ListedKey {
  readonly name: string;
  readonly row: KeyRow;
  readonly rule: RuleReport;
}

/** Orders the rules by newly refused requests, descending. */
function orderRules({ data, figures }: PageSource) {
  return Array.from(data.rules, ([path, rule]) => {
    const [sums, keySums] = [noOutcomes(), noOutcomes()];
    for (const column of rule.series.columns()) addOutcomes(sums, column);
    for (const row of rule.keys.all.values()) keySums[keyOutcome(row)]++;
    const [own, against] = [figures.rules, figures.against].map((side) => side?.rules.get(path));
    /** `figures` are those under the rules, and `against` those under the compared ones; undefined without descriptors. */
    return { ...rule, path, sums, keySums, figures: own, against };
  }).sort(
    (one, other) =>
      other.sums.newly_refused - one.sums.newly_refused ||
      other.sums.spared - one.sums.spared ||
      other.sums.refused - one.sums.refused ||
      (one.path < other.path ? -1 : 1),
  );
}

const UNITS = [
  [604_800_000, 'week'],
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
] as const;

/** `60 a minute`, `100 in 10 seconds`. */
function limitText({ limit, windowMs, currency }: ShownLimit): string {
  const amount = amountText(limit, currency);
  const [unitMs, unit] = UNITS.find(([ms]) => windowMs % ms === 0) ?? [1, 'ms'];
  const units = windowMs / unitMs;
  if (units !== 1) return `${amount} in ${count(units)} ${unit}${unit === 'ms' ? '' : 's'}`;
  return `${amount} ${unit === 'hour' ? 'an' : 'a'} ${unit}`;
}
