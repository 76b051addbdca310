import type { RuleFigures } from '../figures.ts';
import type { ReportSource } from '../report.ts';
import { type KeyRow, outcomeOfKey } from './key-table.ts';
import type { ReportData, RuleData } from './report-data.ts';
import { outcomes, type RequestOutcome } from './time-axis.ts';

/** The data of a report's page. */
export interface PageSource extends ReportSource {
  /** File names as given by the operator. */
  readonly names: { readonly rules: string; readonly against: string | undefined; readonly traffic: readonly string[] };
  readonly data: ReportData;
}

/** The data that the page shows for one rule. */
export interface RuleReport extends RuleData {
  readonly path: string;
  readonly sums: Readonly<Record<RequestOutcome, number>>;
  readonly keySums: Readonly<Record<RequestOutcome, number>>;
  /** Under the rules; undefined: no descriptor matched such a rule. */
  readonly figures: RuleFigures | undefined;
  /** Under the rules of the comparison. */
  readonly against: RuleFigures | undefined;
}

/** A key, and the rule that limits it. */
export interface ListedKey {
  readonly name: string;
  readonly row: KeyRow;
  readonly rule: RuleReport;
}

/** The rules, ordered by newly refused requests, the most first. */
export function rulesOf({ data, figures }: PageSource): readonly RuleReport[] {
  return Array.from(data.rules, ([path, rule]): RuleReport => {
    const sums = emptySums();
    for (const column of rule.series.columns()) for (const outcome of outcomes) sums[outcome] += column[outcome];
    const keySums = emptySums();
    for (const row of rule.keys.rows.values()) keySums[outcomeOfKey(row)]++;
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
