import { RulesInForce } from './in-force.ts';
import type { CheckedRules, LoadOptions } from './load.ts';
import { differing, type PackedRules } from './packed.ts';
import { type CompareRules, findReload, type Reload } from './reload.ts';
import { openThread, serveThread } from './thread.ts';

/** A thread that checks rules, each time with what is in a job, and compares two versions of them. */
export interface RulesThread<J> {
  /** Rejects where the thread fails. */
  check(job: J): Promise<CheckedRules>;
  /** Rejects where the thread fails. */
  readonly compare: CompareRules;
  close(): void;
}

type RulesJob<J> = { readonly check: J } | Versions;

interface Versions {
  readonly before: PackedRules;
  readonly after: PackedRules;
}

/** @param entry  the module that the thread runs: it calls `serveRulesThread` */
export function openRulesThread<J>(entry: URL, options: LoadOptions): RulesThread<J> {
  const thread = openThread<RulesJob<J>, CheckedRules | Reload>(entry, options);
  return {
    check: (check) => thread.do({ check }) as Promise<CheckedRules>, // as `serveRulesThread` answers such a job
    compare: (before, after) => thread.do(differing(before, after)) as Promise<Reload>, // likewise
    close: thread.close,
  };
}

/** Does the jobs of this thread. */
export function serveRulesThread<J>(open: (options: LoadOptions) => (job: J) => CheckedRules): void {
  serveThread((options: LoadOptions) => {
    const check = open(options);
    const compiled = (packed: PackedRules) => new RulesInForce(options.store?.split).replaceAtOnce(packed);
    return (job: RulesJob<J>): CheckedRules | Reload =>
      'check' in job ? check(job.check) : findReload(compiled(job.before), compiled(job.after));
  });
}
