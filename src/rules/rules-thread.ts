import type { CheckedRules, LoadOptions } from './load.ts';
import { differing, type PackedDomain, type PackedRules } from './packed.ts';
import type { CompareRules, Reload } from './reload.ts';
import {
  type CheckAnswer,
  type CompareAnswer,
  headOf,
  PIECES_A_MESSAGE,
  type RulesJob,
  RulesJobs,
} from './rules-jobs.ts';
import { openThread, serveThread, type Thread } from './thread.ts';

/** A thread that checks rules, each time with what is in a job, and compares two versions of them. */
export interface RulesThread<J> {
  /**
   * Rejects where the thread fails.
   *
   * @param isServing  there are rules in force: the thread leaves the processors to requests most of the time
   */
  check(job: J, isServing: boolean): Promise<CheckedRules>;
  /** Rejects where the thread fails. */
  readonly compare: CompareRules;
  close(): void;
}

/** @param entry  the module that the thread runs: it calls `serveRulesThread` */
export function openRulesThread<J>(entry: URL, options: LoadOptions): RulesThread<J> {
  const thread = openThread<RulesJob<J>, unknown>(entry, options);
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work);
    last = done.catch(() => {});
    return done;
  };
  return {
    check: (job, isServing) => inTurn(() => check(thread, job, isServing)),
    compare: (before, after) => inTurn(() => compare(thread, before, after)),
    close: thread.close,
  };
}

async function check<J>(thread: Thread<RulesJob<J>, unknown>, job: J, isServing: boolean): Promise<CheckedRules> {
  const checked = (await thread.do({ kind: 'check', job, isServing })) as CheckAnswer; // as `RulesJobs` answers
  if (!checked.ok) return checked;
  const { heads, ...others } = checked;
  const packed: PackedDomain[] = [];
  let pieces: readonly string[] = [];
  let taken = 0;
  for (const { pieceCount, ...head } of heads) {
    const own: string[] = [];
    while (own.length < pieceCount) {
      if (pieces.length === 0) pieces = (await thread.do({ kind: 'take', from: taken })) as readonly string[]; // likewise
      if (pieces.length === 0) throw new Error('the thread was replaced by another one');
      const next = pieces.slice(0, pieceCount - own.length);
      own.push(...next);
      pieces = pieces.slice(next.length);
      taken += next.length;
    }
    packed.push({ ...head, pieces: own });
  }
  return { ...others, packed };
}

async function compare<J>(
  thread: Thread<RulesJob<J>, unknown>,
  before: PackedRules,
  after: PackedRules,
): Promise<Reload> {
  const versions = differing(before, after);
  const heads = { before: versions.before.map(headOf), after: versions.after.map(headOf) };
  let kept: PackedRules = [];
  for (let tries = 0; tries < 2; tries++) {
    const job = { kind: 'compare', ...heads, kept: kept.map(headOf) } as const;
    const found = (await thread.do(job)) as CompareAnswer; // as `RulesJobs` answers
    if (!('missing' in found)) return found;
    const missing = new Set(found.missing);
    kept = [...versions.before, ...versions.after].filter(({ hash }) => missing.has(hash));
    const pieces = kept.flatMap((domain) => domain.pieces);
    for (let at = 0; at < pieces.length; at += PIECES_A_MESSAGE)
      await thread.do({ kind: 'keep', pieces: pieces.slice(at, at + PIECES_A_MESSAGE) });
  }
  throw new Error('the thread was replaced by another one');
}

/** Does the jobs of this thread. */
export function serveRulesThread<J>(open: (options: LoadOptions) => (job: J) => CheckedRules): void {
  serveThread((options: LoadOptions) => {
    const jobs = new RulesJobs(open(options), options);
    return (job: RulesJob<J>) => jobs.do(job);
  });
}
