import { table } from '../tables/table.ts';
import { type Evidence, findFailingOpenOverruns, isUndecided, type Violation } from './checker.ts';
import type { RunLog } from './log.ts';
import { findSpells, isTrouble, type Spell } from './spells.ts';

/** Maximum number of log lines shown for each violation. */
const EVIDENCE_LINES = 30;

/**
 * A table with the outcomes of calls from the start of each kind of fault until the next; the first row is the time
 * before faults.
 */
export function toMarkdown(log: RunLog): string {
  const byKind = new Map<string, Spell[]>();
  for (const spell of findSpells(log)) {
    const kinds = spell.faults.length === 0 ? ['none yet'] : new Set(spell.faults.map(({ kind }) => kind));
    for (const kind of kinds) byKind.set(kind, [...(byKind.get(kind) ?? []), spell]);
  }
  const columns = ['fault', 'times', 'calls', 'failed', 'degraded', 'worst answer ms', 'worst time to normal ms'];
  const [first = [], ...others] = Array.from(byKind, ([kind, spells]) => line(kind, spells));
  return table(columns, 1, [first, ...others.toSorted(byName)]);
}

const byName = ([a = '']: readonly string[], [b = '']: readonly string[]): number => (a < b ? -1 : 1);

function line(kind: string, spells: readonly Spell[]): string[] {
  const calls = spells.flatMap((spell) => spell.calls);
  const degraded = calls.filter((call) => call.degraded !== undefined);
  const failed = calls.filter(isTrouble).length - degraded.length;
  const worst = calls.reduce((ms, { sentMs, answeredMs }) => Math.max(ms, answeredMs - sentMs), 0);
  const normal = Math.max(...spells.map(({ normalAfterMs }) => normalAfterMs));
  return [kind, ...[spells.length, calls.length, failed, degraded.length, worst, normal].map((n) => n.toFixed(0))];
}

/**
 * A table with what a caller that fails open is exposed to: the hits that were not decided, and by how much the worst
 * interval exceeds the bound of the limit with them.
 */
export function describeExposure(log: RunLog): string {
  const rows = log.plan.rules.map((rule) => {
    const calls = log.calls.filter(({ key }) => key === rule.key);
    const undecided = calls.filter(isUndecided).reduce((hits, call) => hits + call.hits, 0);
    const overruns = findFailingOpenOverruns(rule, calls, log).map(({ hits, most }) => hits - most);
    return [rule.key, rule.onStoreFailure, undecided.toFixed(0), Math.max(0, ...overruns).toFixed(0)];
  });
  const head = ['limit', 'on_store_failure', 'undecided hits', 'most beyond the bound'];
  return table(head, 2, rows);
}

/** Describes violations, with the log lines that show them. */
export function describeViolations(violations: readonly Violation[]): string {
  return violations
    .map(({ invariant, what, evidence }) => [`${invariant}: ${what}`, ...shown(evidence)].join('\n'))
    .join('\n\n');
}

function shown(evidence: readonly Evidence[]): string[] {
  const lines = evidence.slice(0, EVIDENCE_LINES).map((record) => `  ${JSON.stringify(record)}`);
  const more = evidence.length - lines.length;
  return more > 0 ? [...lines, `  and ${more} more`] : lines;
}
