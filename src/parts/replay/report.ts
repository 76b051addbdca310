import { printable } from '../../base/printable.ts';
import { count, percent, table } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { showMoney } from '../../engine/algorithms/money.ts';
import { readTexts } from '../../engine/decide/counter-key.ts';
import type { Figures, RuleFigures } from './figures.ts';
import type { TrafficCounts } from './traffic.ts';

type SideFigures = Figures['rules'];

/** The data of a report. */
export interface ReportSource {
  readonly figures: Figures;
  readonly counts: TrafficCounts;
  /** Warnings to the operator, one text each. */
  readonly warnings: readonly string[];
}

/** Warnings about refusals that the bound leaves out of the figures, one text each. */
export const boundWarnings = ({ untrackedRefusals, maxHurtKeys }: Figures): readonly string[] =>
  untrackedRefusals === 0
    ? []
    : [
        `more than ${count(maxHurtKeys)} keys were refused: ${count(untrackedRefusals)} refusals of further keys are counted, but these keys are not listed as hurt, newly hurt or spared`,
      ];

/** The report as JSON. */
export function reportJson({ figures, counts, warnings }: ReportSource): object {
  const { rules, against, change, recorded, labels, firstMs, lastMs } = figures;
  return {
    ...sideJson(rules),
    ...(firstMs !== undefined && lastMs !== undefined && { first: rfc3339(firstMs), last: rfc3339(lastMs) }),
    ...(against && { against: sideJson(against) }),
    ...(change && { change: { ...change, newlyHurt: change.newlyHurt.map(readable) } }),
    ...(recorded && { recorded }),
    ...(labels && { labels }),
    lines: {
      read: counts.lines,
      broken: counts.broken,
      late: counts.late,
      unmapped: counts.unmapped,
      examples: counts.examples,
    },
    warnings,
  };
}

const sideJson = ({ requests, admitted, refused, keysHurt, rules }: SideFigures): object => ({
  requests,
  admitted,
  refused,
  keysHurt,
  rules: Object.fromEntries(Array.from(rules, ([path, rule]) => [path, ruleJson(rule)])),
});

function ruleJson({ firstRefusal, longestLockOut, peak, mostRefused, ...counts }: RuleFigures): object {
  return {
    ...counts,
    ...(firstRefusal && { firstRefusal: { key: readableKey(firstRefusal.key), time: rfc3339(firstRefusal.timeMs) } }),
    ...(longestLockOut && {
      longestLockOut: {
        key: readableKey(longestLockOut.key),
        from: rfc3339(longestLockOut.timeMs),
        ms: longestLockOut.ms,
      },
    }),
    ...(peak && { peak: { ...peak, key: readableKey(peak.key), timeMs: undefined, time: rfc3339(peak.timeMs) } }),
    mostRefused: mostRefused.map(readable),
  };
}

const readable = ({ key, refusals }: { readonly key: string; readonly refusals: number }) => ({
  key: readableKey(key),
  refusals,
});

/** A counter's key in readable form: `demo user=alice,path=/login`. */
export function readableKey(key: string): string {
  for (const at of barsIn(`|${key}`)) {
    const texts = readTexts(`|${key}`, at);
    if (!texts || texts.length % 2 === 0) continue;
    const [domain = '', ...rest] = texts;
    const entries = Array.from({ length: rest.length / 2 }, (_, at) => ({
      key: rest[2 * at] ?? '',
      value: rest[2 * at + 1] ?? '',
    }));
    return `${domain} ${descriptorText(entries)}`;
  }
  return key;
}

function* barsIn(key: string): Iterable<number> {
  for (let at = key.indexOf('|'); at >= 0; at = key.indexOf('|', at + 1)) yield at;
}

/** The report as text. */
export function reportText({ figures, counts, warnings }: ReportSource): string {
  const { rules, against, change, recorded, labels, firstMs, lastMs } = figures;
  const span =
    firstMs === undefined || lastMs === undefined
      ? ''
      : ` from ${rfc3339(firstMs)} to ${rfc3339(lastMs)} (${spanText(lastMs - firstMs)})`;
  const lines = [`${count(rules.requests)} requests${span}`, '', ...sideLines(rules, against ? 'rules' : undefined)];
  if (against) lines.push('', ...sideLines(against, 'against'));
  if (change)
    lines.push(
      '',
      ...changeLines(change, against ? 'against, compared with rules' : 'compared with the recorded answers'),
    );
  if (recorded) lines.push('', `recorded answers: ${count(recorded.same)} of ${count(recorded.answers)} are the same`);
  if (labels)
    lines.push(
      '',
      `labels: ${count(labels.wrong)} wrong refusals, ${count(labels.missed)} missed, of ${count(labels.labelled)}`,
    );
  if (counts.broken > 0) lines.push('', `${count(counts.broken)} broken lines were skipped:`);
  for (const example of counts.examples) lines.push(`  ${example}`);
  if (counts.late > 0)
    lines.push('', `${count(counts.late)} requests were too far out of order to be sorted (--reorder)`);
  if (counts.unmapped > 0)
    lines.push(
      '',
      `${count(counts.unmapped)} requests get no descriptor from the mapping: they pass without being counted`,
    );
  for (const warning of warnings) lines.push('', `warning: ${warning}`);
  return lines.map(printable).join('\n');
}

function sideLines({ requests, admitted, refused, rules, keysHurt }: SideFigures, title = 'all'): readonly string[] {
  const rows = [
    ['', 'requests', 'admitted', 'refused', '', 'keys hurt'],
    formatRow(title, { requests, admitted, refused, keysHurt }),
    ...Array.from(rules, ([path, rule]) => formatRow(path, rule)),
  ];
  const details = Array.from(rules).flatMap(([path, rule]) => ruleLines(path, rule));
  return [...table(rows), ...details];
}

function formatRow(
  title: string,
  { requests, admitted, refused, keysHurt }: Pick<SideFigures, 'requests' | 'admitted' | 'refused' | 'keysHurt'>,
): readonly string[] {
  const part = requests === 0 ? '' : percent(refused / requests);
  return [title, count(requests), count(admitted), count(refused), part, count(keysHurt)];
}

function ruleLines(path: string, rule: RuleFigures): readonly string[] {
  const { firstRefusal, longestLockOut, peak, mostRefused, untrackedRefusals } = rule;
  const lines: string[] = [];
  if (firstRefusal) lines.push(`  first refusal   ${rfc3339(firstRefusal.timeMs)}  ${readableKey(firstRefusal.key)}`);
  if (longestLockOut) {
    const { ms, timeMs, key } = longestLockOut;
    lines.push(`  longest lockout ${spanText(ms)} from ${rfc3339(timeMs)}  ${readableKey(key)}`);
  }
  if (peak) {
    const { hits, windowMs, limit, key, currency } = peak;
    const amount = (of: number): string => (currency === undefined ? count(of) : showMoney(of, currency));
    lines.push(
      `  peak admitted   ${amount(hits)} in ${spanText(windowMs)}, limit ${amount(limit)}  ${readableKey(key)}`,
    );
  }
  for (const { key, refusals } of mostRefused)
    lines.push(`  ${count(refusals).padStart(9)} refused ${readableKey(key)}`);
  if (untrackedRefusals > 0) lines.push(`  ${count(untrackedRefusals)} refusals of further keys`);
  return lines.length === 0 ? [] : ['', path, ...lines];
}

function changeLines(
  { compared, newlyRefused, newlyAdmitted, keysNewlyHurt, keysNewlySpared, newlyHurt }: NonNullable<Figures['change']>,
  what: string,
): readonly string[] {
  const part = (requests: number): string => (compared === 0 ? '' : ` (${percent(requests / compared)})`);
  return [
    `${what}:`,
    `  newly refused   ${count(newlyRefused)}${part(newlyRefused)}`,
    `  newly admitted  ${count(newlyAdmitted)}${part(newlyAdmitted)}`,
    `  keys newly hurt ${count(keysNewlyHurt)}, newly spared ${count(keysNewlySpared)}`,
    ...newlyHurt.map(({ key, refusals }) => `  ${count(refusals).padStart(9)} refused ${readableKey(key)}`),
  ];
}

/** `250 ms`, `1.5 s`, `2 h` */
export function spanText(ms: number): string {
  const [unit, name] = spanUnits.find(([least]) => ms >= least) ?? [1, 'ms'];
  return `${Number((ms / unit).toPrecision(3))} ${name}`;
}
const spanUnits = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const;
