import { countProblems, formatProblem, isUnread } from '../../engine/rules/read/problem.ts';
import type { AdminOptions, SourcedRules } from '../admin/options.ts';
import type { ReportedFigures } from '../observe/table.ts';
import type { WorkReport } from '../observe/work-state.ts';

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
  readonly background: readonly WorkReport[];
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

const MAX_SHOWN_PROBLEMS = 20;

export function healthFacts(options: AdminOptions): HealthFacts {
  const state = options.store();
  return {
    store: {
      description: options.storeDescription(),
      ...(state && { isUp: state.isUp }),
      ...(state?.reason !== undefined && { reason: state.reason }),
      ...(state?.latencyMs !== undefined && { latencyMs: Math.round(state.latencyMs * 100) / 100 }),
      ...(state?.lastSuccessAtMs !== undefined && { lastSuccessAtMs: state.lastSuccessAtMs }),
    },
    circuits: Array.from(options.openCircuits(), ([node, open]) => ({ node, open })),
    figures: options.figures(),
    workers: { expected: options.settings.workers, restarts: options.restarts() },
    background: options.background(),
    rules: rulesFacts(options.sourced),
  };
}

function rulesFacts({ book, inForce, lastLoad }: SourcedRules): HealthFacts['rules'] {
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
