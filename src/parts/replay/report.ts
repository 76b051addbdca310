import { present } from '../../base/group.ts';
import { printable } from '../../base/printable.ts';
import { count, counted, percent, table } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { showMoney } from '../../engine/algorithms/money.ts';
import { readTexts } from '../../engine/decide/counter-key.ts';
import type { Figures, RuleFigures } from './figures.ts';
import type { TrafficCounts } from './input.ts';
import type { KeyRefusals } from './key-figures.ts';

type SideFigures = Figures['rules'];

/** The data of a report. */
export interface ReportSource {
  readonly figures: Figures;
  readonly counts: TrafficCounts;
  /** Warnings to the operator, one text each. */
  readonly warnings: readonly string[];
}

/** Warning about refusals that the bound leaves out of the figures, if any. */
export const boundWarning = ({ untrackedRefusals, maxHurtKeys }: Figures): string | undefined =>
  untrackedRefusals === 0
    ? undefined
    : `more than ${count(maxHurtKeys)} keys were refused: those of further keys are counted (${count(untrackedRefusals)}), but these are not listed as hurt, newly hurt or spared`;

/** The report as JSON. */
export function reportJson({ figures, counts, warnings }: ReportSource): object {
  const { rules, against, change, recorded, labels, firstMs, lastMs } = figures;
  const { lines: read, broken, late, unmapped, examples } = counts;
  return {
    ...sideJson(rules),
    ...(firstMs !== undefined && lastMs !== undefined && { first: rfc3339(firstMs), last: rfc3339(lastMs) }),
    ...(against && { against: sideJson(against) }),
    ...(change && { change: { ...change, newlyHurt: change.newlyHurt.map(readable) } }),
    ...(recorded && { recorded }),
    ...(labels && { labels }),
    lines: { read, broken, late, unmapped, examples },
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

function ruleJson({ firstRefusal: first, longestLockOut: longest, peak, mostRefused, ...counts }: RuleFigures): object {
  return {
    ...counts,
    ...(first && { firstRefusal: { key: readableKey(first.key), time: rfc3339(first.timeMs) } }),
    ...(longest && {
      longestLockOut: { key: readableKey(longest.key), from: rfc3339(longest.timeMs), ms: longest.ms },
    }),
    ...(peak && { peak: { ...peak, key: readableKey(peak.key), timeMs: undefined, time: rfc3339(peak.timeMs) } }),
    mostRefused: mostRefused.map(readable),
  };
}

const readable = ({ key, refusals }: KeyRefusals) => ({ key: readableKey(key), refusals });

/** A counter's key in readable form: `demo user=alice,path=/login`. */
export function readableKey(key: string): string {
  for (const { index } of `|${key}`.matchAll(/\|/g)) {
    const texts = readTexts(`|${key}`, index);
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

/** The report as text. */
export function reportText({ figures, counts: { broken, late, unmapped, examples }, warnings }: ReportSource): string {
  const { rules, against, change, recorded, labels, firstMs, lastMs } = figures;
  const span =
    firstMs === undefined || lastMs === undefined
      ? ''
      : ` from ${rfc3339(firstMs)} to ${rfc3339(lastMs)} (${spanText(lastMs - firstMs)})`;
  const compared = against ? 'against, compared with rules' : 'compared with the recorded answers';
  const sections = present([
    [`${counted(rules.requests, 'request')}${span}`],
    sideLines(rules, against ? 'rules' : 'all'),
    against && sideLines(against, 'against'),
    change && changeLines(change, compared),
    recorded && [`recorded answers: ${count(recorded.same)} of ${count(recorded.answers)} are the same`],
    labels && [
      `labels: ${counted(labels.wrong, 'wrong refusal')}, ${count(labels.missed)} missed, of ${count(labels.labelled)}`,
    ],
    broken > 0 && [`skipped ${counted(broken, 'broken line')}:`, ...examples.map((example) => `  ${example}`)],
    late > 0 && [`${counted(late, 'request')} too far out of order to be sorted (--reorder)`],
    unmapped > 0 && [
      `${counted(unmapped, 'request')} without a descriptor from the mapping passed without being counted`,
    ],
    ...warnings.map((warning) => [`warning: ${warning}`]),
  ]);
  return sections.map((lines) => lines.map(printable).join('\n')).join('\n\n');
}

function sideLines(side: SideFigures, title: string): readonly string[] {
  const rules = [...side.rules];
  const rows = [
    ['', 'requests', 'admitted', 'refused', '', 'keys hurt'],
    formatRow(title, side),
    ...rules.map(([path, rule]) => formatRow(path, rule)),
  ];
  return [...table(rows), ...rules.flatMap(([path, rule]) => ruleLines(path, rule))];
}

function formatRow(title: string, { requests, admitted, refused, keysHurt }: Omit<SideFigures, 'rules'>) {
  const part = requests === 0 ? '' : percent(refused / requests);
  return [title, count(requests), count(admitted), count(refused), part, count(keysHurt)];
}

/** What a limit counts: `1,200` hits, or `12.50 USD` of a budget. */
export const amountText = (amount: number, currency: string | undefined): string =>
  currency === undefined ? count(amount) : showMoney(amount, currency);

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
    const [most, of] = [hits, limit].map((one) => amountText(one, currency));
    lines.push(`  peak admitted   ${most} in ${spanText(windowMs)}, limit ${of}  ${readableKey(key)}`);
  }
  lines.push(...mostRefused.map(refusedLine));
  if (untrackedRefusals > 0) lines.push(`  ${counted(untrackedRefusals, 'refusal')} of further keys`);
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
    ...newlyHurt.map(refusedLine),
  ];
}

const refusedLine = ({ key, refusals }: KeyRefusals): string =>
  `  ${count(refusals).padStart(9)} refused ${readableKey(key)}`;

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
