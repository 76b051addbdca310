import { inTurn } from '../../../base/in-turn.ts';
import { differing, type PackedDomain, type PackedRules } from '../compile/packed.ts';
import { type JobProcess, JobTookTooLong, openJobProcess, serveJobs } from './job-process.ts';
import type { CheckedRules, LoadOptions } from './load.ts';
import type { CompareRules, Reload } from './reload.ts';
import {
  type CheckAnswer,
  type CompareAnswer,
  headOf,
  PIECES_A_MESSAGE,
  type RulesJob,
  RulesJobs,
} from './rules-jobs.ts';

/** A process that checks rules, given by the job, and compares two versions of them. */
interface RulesProcess<J> {
  /**
   * Rejects if the process fails twice, or takes too long.
   *
   * @param isServing  rules are in force: the process leaves the processors to requests most of the time
   */
  check(job: J, isServing: boolean): Promise<CheckedRules>;
  /** Rejects if the process fails. */
  readonly compare: CompareRules;
  close(): void;
}

/** @param entry  the module that the process runs: it calls `serveRulesProcess` */
export function openRulesProcess<J>(entry: URL, options: LoadOptions): RulesProcess<J> {
  const jobs = openJobProcess<RulesJob<J>, unknown>(entry, options);
  const next = inTurn();
  const checkTwice = async (job: J, isServing: boolean): Promise<CheckedRules> => {
    try {
      return await check(jobs, job, isServing);
    } catch (error) {
      if (error instanceof JobTookTooLong) throw error; // it would take as long again
      return check(jobs, job, isServing);
    }
  };
  return {
    check: (job, isServing) => next(() => checkTwice(job, isServing)),
    compare: (before, after) => next(() => compare(jobs, before, after)),
    close: jobs.close,
  };
}

async function check<J>(jobs: JobProcess<RulesJob<J>, unknown>, job: J, isServing: boolean): Promise<CheckedRules> {
  const checked = (await jobs.do({ kind: 'check', job, isServing })) as CheckAnswer; // as `RulesJobs` answers
  if (!checked.ok) return checked;
  const { heads, ...others } = checked;
  const packed: PackedDomain[] = [];
  let pieces: readonly string[] = [];
  let taken = 0;
  for (const { pieceCount, ...head } of heads) {
    const own: string[] = [];
    while (own.length < pieceCount) {
      if (pieces.length === 0) pieces = (await jobs.do({ kind: 'take', from: taken })) as readonly string[]; // likewise
      if (pieces.length === 0) throw new Error('the process that checks rules was restarted');
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
  jobs: JobProcess<RulesJob<J>, unknown>,
  before: PackedRules,
  after: PackedRules,
): Promise<Reload> {
  const versions = differing(before, after);
  const heads = { before: versions.before.map(headOf), after: versions.after.map(headOf) };
  let kept: PackedRules = [];
  for (let tries = 0; tries < 2; tries++) {
    const job = { kind: 'compare', ...heads, kept: kept.map(headOf) } as const;
    const found = (await jobs.do(job)) as CompareAnswer; // as `RulesJobs` answers
    if (!('missing' in found)) return found;
    const missing = new Set(found.missing);
    kept = [...versions.before, ...versions.after].filter(({ hash }) => missing.has(hash));
    const pieces = kept.flatMap((domain) => domain.pieces);
    for (let at = 0; at < pieces.length; at += PIECES_A_MESSAGE)
      await jobs.do({ kind: 'keep', pieces: pieces.slice(at, at + PIECES_A_MESSAGE) });
  }
  throw new Error('the process that checks rules was restarted');
}

/** Runs the jobs of a process. */
export function serveRulesProcess<J>(
  own: NodeJS.Process,
  open: (options: LoadOptions) => (job: J) => CheckedRules,
): void {
  serveJobs(own, (options: LoadOptions) => {
    const jobs = new RulesJobs(open(options), options);
    return (job: RulesJob<J>) => jobs.do(job);
  });
}
