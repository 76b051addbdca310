import { inTurn } from '../../../base/in-turn.ts';
import { differing, type PackedDomain, type PackedRules } from '../compile/packed.ts';
import { checkpoint } from '../read/checkpoint.ts';
import { besideRequests } from './duty-cycle.ts';
import { type JobProcess, JobTookTooLong, openJobProcess, serveJobs } from './job-process.ts';
import type { CheckedRules, LoadOptions } from './load.ts';
import { type CompareRules, findReload, type Reload } from './reload.ts';
import { type RuleSummaries, type RuleSummary, summarize } from './rule-summary.ts';

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

/** A domain without its pieces, which are sent separately, a few in a message. */
interface PackedHead extends Omit<PackedDomain, 'pieces'> {
  readonly pieceCount: number;
}

/**
 * A job of a process that checks rules.
 *
 * check    returns `CheckAnswer`
 * take     returns the next pieces of the rules that were checked last: texts
 * keep     returns nothing: the job has pieces that the process requested
 * compare  returns `CompareAnswer`
 */
type RulesJob<J> =
  | { readonly kind: 'check'; readonly job: J; readonly isServing: boolean }
  | { readonly kind: 'take'; readonly from: number }
  | { readonly kind: 'keep'; readonly pieces: readonly string[] }
  | {
      readonly kind: 'compare';
      readonly before: readonly PackedHead[];
      readonly after: readonly PackedHead[];
      /** The domains of the pieces that were sent by `keep`, in their order. */
      readonly kept: readonly PackedHead[];
    };

export type CheckAnswer =
  | (Omit<Extract<CheckedRules, { ok: true }>, 'packed'> & { readonly heads: readonly PackedHead[] })
  | Extract<CheckedRules, { ok: false }>;

/** The effects of a reload, or the hashes of domains whose pieces are needed for the comparison. */
type CompareAnswer = Reload | { readonly missing: readonly string[] };

/** Pieces in a message, about 60 kB, which is parsed in one turn of the event loop. */
const PIECES_A_MESSAGE = 16;

/** Runs the jobs of a process that checks rules. For rules in force, it keeps what comparisons need. */
export class RulesJobs<J> {
  readonly #check: (job: J) => CheckedRules;
  readonly #split: NonNullable<LoadOptions['store']>['split'];
  readonly #beside: typeof besideRequests;
  /** Domains that may be compared next, by hash. */
  #packed = new Map<string, PackedDomain>();
  /** The pieces of the rules that were checked last. */
  #pieces: readonly string[] = [];
  #kept: string[] = [];
  /** The summaries of domains in force, by hash. */
  readonly #summaries = new Map<string, RuleSummaries>();

  /** @param beside  runs work that must not delay requests */
  constructor(check: (job: J) => CheckedRules, { store }: LoadOptions, beside = besideRequests) {
    this.#check = check;
    this.#split = store?.split;
    this.#beside = beside;
  }

  do(job: RulesJob<J>): unknown {
    switch (job.kind) {
      case 'check':
        return job.isServing ? this.#beside(() => this.#checked(job.job)) : this.#checked(job.job);
      case 'take':
        return this.#pieces.slice(job.from, job.from + PIECES_A_MESSAGE);
      case 'keep':
        this.#kept.push(...job.pieces);
        return undefined;
      case 'compare':
        this.#takeKept(job.kept);
        return this.#beside(() => this.#compare(job.before, job.after));
    }
  }

  #checked(job: J): CheckAnswer {
    this.#pieces = [];
    this.#packed.clear();
    const checked = this.#check(job);
    if (!checked.ok) return checked;
    const { packed, ...others } = checked;
    this.#pieces = packed.flatMap(({ pieces }) => pieces);
    for (const domain of packed) this.#packed.set(domain.hash, domain);
    return { ...others, heads: packed.map(headOf) };
  }

  /** Keeps the domains only if all their pieces have arrived; otherwise they are requested again. */
  #takeKept(heads: readonly PackedHead[]): void {
    const kept = this.#kept;
    this.#kept = [];
    if (heads.reduce((sum, { pieceCount }) => sum + pieceCount, 0) !== kept.length) return;
    let at = 0;
    for (const { pieceCount, ...head } of heads) {
      this.#packed.set(head.hash, { ...head, pieces: kept.slice(at, at + pieceCount) });
      at += pieceCount;
    }
  }

  #compare(before: readonly PackedHead[], after: readonly PackedHead[]): CompareAnswer {
    const hashes = [...before, ...after].map(({ hash }) => hash);
    const missing = hashes.filter((hash) => !this.#summaries.has(hash) && !this.#packed.has(hash));
    if (missing.length > 0) return { missing };
    const reload = findReload(this.#summariesOf(before), this.#summariesOf(after));
    for (const { hash } of before) this.#summaries.delete(hash);
    this.#packed.clear();
    this.#pieces = [];
    return reload;
  }

  #summariesOf(heads: readonly PackedHead[]): RuleSummaries {
    const all = new Map<string, RuleSummary>();
    for (const { hash } of heads)
      for (const [id, summary] of this.#summaryOf(hash)) {
        checkpoint();
        all.set(id, summary);
      }
    return all;
  }

  #summaryOf(hash: string): RuleSummaries {
    const packed = this.#packed.get(hash);
    const known = this.#summaries.get(hash) ?? (packed && summarize(packed, this.#split));
    if (!known) throw new Error(`domain ${hash} is unknown`);
    this.#summaries.set(hash, known);
    return known;
  }
}

export const headOf = ({ pieces, ...head }: PackedDomain): PackedHead => ({ ...head, pieceCount: pieces.length });
