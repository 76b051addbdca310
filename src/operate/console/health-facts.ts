import type { SitesReport } from '../../edge/sites/site-counts.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { countProblems, formatProblem, isUnread } from '../../engine/rules/read/problem.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import type { ReportedFigures, RulesInForceFacts, StoreFacts } from '../observe/table.ts';

/** State that is read for each snapshot. */
export interface HealthFacts {
  readonly store: {
    readonly description: string;
    /** Absent: counters are in this process. */
    readonly isUp?: boolean;
    readonly reason?: string;
    readonly latencyMs?: number;
    readonly lastSuccessAtMs?: number;
  };
  /** For each node of the store, the number of processes whose circuit to it is open. */
  readonly circuits: readonly { readonly node: string; readonly open: number }[];
  readonly figures: ReportedFigures;
  readonly workers: { readonly expected: number; readonly restarts: number };
  readonly rules: {
    readonly hash?: string;
    readonly loadedAtMs?: number;
    readonly isNewest: boolean;
    /** Newer rules could not be read, which is tried again. */
    readonly isUnread: boolean;
    readonly count: number;
    readonly problems: readonly string[];
    readonly moreProblems: number;
  };
}

/** The state of the processes that answer requests. */
export interface ResponderFacts {
  /** What all processes of this instance report. */
  figures(): ReportedFigures;
  /** The number of processes with an open circuit, for each node of the store. */
  openCircuits(): ReadonlyMap<string, number>;
  /** Where the counters are, for people. */
  storeDescription(): string;
  /** The state of the store; undefined: counters are in the memory of these processes. */
  store(): StoreFacts | undefined;
  /** The exchanges with other sites; undefined: this is the only one. */
  sites(): SitesReport | undefined;
  /** The number of replaced workers. */
  restarts(): number;
}

/** The sources of the facts. */
interface HealthSources {
  readonly rules: {
    readonly book: { rules(): RuleTree | undefined };
    inForce(): RulesInForceFacts | undefined;
    lastLoad(): LoadedRules | undefined;
  };
  readonly responders: ResponderFacts;
  /** The expected number of processes. */
  readonly workers: number;
}

const MAX_SHOWN_PROBLEMS = 20;

export function healthFacts({ rules, responders, workers }: HealthSources): HealthFacts {
  const state = responders.store();
  return {
    store: {
      description: responders.storeDescription(),
      ...(state && { isUp: state.isUp }),
      ...(state?.reason !== undefined && { reason: state.reason }),
      ...(state?.latencyMs !== undefined && { latencyMs: Math.round(state.latencyMs * 100) / 100 }),
      ...(state?.lastSuccessAtMs !== undefined && { lastSuccessAtMs: state.lastSuccessAtMs }),
    },
    circuits: Array.from(responders.openCircuits(), ([node, open]) => ({ node, open })),
    figures: responders.figures(),
    workers: { expected: workers, restarts: responders.restarts() },
    rules: rulesFacts(rules),
  };
}

function rulesFacts({ book, inForce, lastLoad }: HealthSources['rules']): HealthFacts['rules'] {
  const loaded = inForce();
  const last = lastLoad();
  const problems = last && !last.ok ? last.problems : [];
  return {
    ...(loaded && { hash: loaded.hash, loadedAtMs: loaded.atMs }),
    isNewest: loaded?.isNewest ?? true,
    isUnread: problems.length > 0 && isUnread(problems),
    count: book.rules()?.rules.length ?? 0,
    problems: problems.slice(0, MAX_SHOWN_PROBLEMS).map(formatProblem),
    moreProblems: Math.max(countProblems(problems) - MAX_SHOWN_PROBLEMS, 0),
  };
}
