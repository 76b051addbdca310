import type { DenyCacheState } from '../../engine/ledger/refusals.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { countProblems, formatProblem } from '../../engine/rules/read/problem.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import type { ProcessUse } from '../observe/process-use.ts';
import type { Load, MemoryFacts, ServiceGauges, StoreFacts } from '../observe/service-gauges.ts';

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
  readonly memory?: MemoryFacts;
  readonly load: Load;
  readonly leased: number;
  readonly denyCache?: { readonly size: number } & DenyCacheState['counts'];
  readonly workers: { readonly expected: number; readonly restarts: number };
  /** The memory of all processes. */
  readonly process: { readonly rssBytes: number; readonly heapBytes: number };
  readonly rules: {
    readonly hash?: string;
    readonly loadedAtMs?: number;
    readonly isNewest: boolean;
    readonly count: number;
    readonly problems: readonly string[];
    readonly moreProblems: number;
  };
}

/** The state of the processes that answer requests. */
export interface ResponderFacts {
  /** The cache of refusals; undefined: disabled. */
  cache(): DenyCacheState | undefined;
  /** The number of processes with an open circuit, for each node of the store. */
  openCircuits(): ReadonlyMap<string, number>;
  /** Leased but unused hits. */
  leased(): number;
  /** What all processes of this instance use. */
  processes(): ProcessUse;
  /** Where the counters are, for people. */
  storeDescription(): string;
  /** The state of the store; undefined: counters are in the memory of these processes. */
  store(): StoreFacts | undefined;
  /** Counters in the memory of these processes; undefined: they are elsewhere. */
  memory(): MemoryFacts | undefined;
  /** The load of all these processes. */
  load(): Load;
  /** The number of replaced workers. */
  restarts(): number;
}

/** The sources of the facts. */
interface HealthSources {
  readonly rules: {
    readonly book: { rules(): RuleTree | undefined };
    readonly inForce: ServiceGauges['lastLoad'];
    lastLoad(): LoadedRules | undefined;
  };
  readonly responders: ResponderFacts;
  /** The expected number of processes. */
  readonly workers: number;
}

const MAX_SHOWN_PROBLEMS = 20;

export function healthFacts({ rules, responders, workers }: HealthSources): HealthFacts {
  const state = responders.store();
  const cache = responders.cache();
  const memory = responders.memory();
  const { rssBytes, heapBytes } = responders.processes();
  return {
    store: {
      description: responders.storeDescription(),
      ...(state && { isUp: state.isUp }),
      ...(state?.reason !== undefined && { reason: state.reason }),
      ...(state?.latencyMs !== undefined && { latencyMs: Math.round(state.latencyMs * 100) / 100 }),
      ...(state?.lastSuccessAtMs !== undefined && { lastSuccessAtMs: state.lastSuccessAtMs }),
    },
    circuits: Array.from(responders.openCircuits(), ([node, open]) => ({ node, open })),
    ...(memory && { memory }),
    load: responders.load(),
    leased: responders.leased(),
    ...(cache && { denyCache: { size: cache.size(), ...cache.counts } }),
    workers: { expected: workers, restarts: responders.restarts() },
    process: { rssBytes, heapBytes },
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
    count: book.rules()?.rules.length ?? 0,
    problems: problems.slice(0, MAX_SHOWN_PROBLEMS).map(formatProblem),
    moreProblems: Math.max(countProblems(problems) - MAX_SHOWN_PROBLEMS, 0),
  };
}
