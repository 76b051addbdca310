import type { TrialReport } from '../candidate/report.ts';
import type { Trial } from '../candidate/trial.ts';
import type { Answer, Decider } from '../decide.ts';
import type { Observer } from '../rls/service.ts';
import { RulesInForce } from '../rules/in-force.ts';
import { hashOf } from '../rules/packed.ts';
import type { Settings } from '../settings.ts';
import type { Core } from './core.ts';
import type { Part, ProcessContext } from './parts.ts';

/** The candidate in a process that answers requests. */
export interface OpenCandidate extends Part {
  /**
   * @param keys  so many keys of each rule
   * @param rule  of this one alone
   * @returns undefined  none is tried
   */
  report(keys: number, rule?: string): TrialReport | undefined;
}

export interface CandidateSources {
  readonly core: Pick<Core, 'rules' | 'store'>;
  /** What the live rules are decided with. */
  readonly decider: Decider;
  /** Is notified of the answers; while a candidate is tried, its `answered` is another one. */
  readonly observer: Observer;
  /** Whether this process refuses calls since it has too much to do. */
  readonly isLate: () => boolean;
}

/** Tries the candidate on what this process answers, while there is one. Without one, nothing of it is loaded. */
export function openCandidate(
  settings: Pick<Settings, 'counters' | 'candidate'>,
  sources: CandidateSources,
  context: ProcessContext,
): OpenCandidate {
  const { core, observer } = sources;
  const { candidate, book } = core.rules;
  const { answered } = observer;
  let trial: Trial | undefined;
  let inForce = new RulesInForce(settings.counters.split);
  let liveHash = hashOf(book.packed() ?? []);
  let last: Promise<void> = Promise.resolve();
  let isClosed = false;

  const attach = (to: Trial): void => {
    trial = to;
    observer.answered = (request, answer, timeoutMs) => {
      answered(request, answer, timeoutMs);
      to.answered(request, answer, timeoutMs);
    };
  };
  const detach = async (): Promise<void> => {
    const ended = trial;
    trial = undefined;
    inForce = new RulesInForce(settings.counters.split);
    observer.answered = answered;
    await ended?.close();
  };
  const follow = async (): Promise<void> => {
    const packed = candidate.packed();
    if (isClosed || !packed) return detach();
    const rules = await inForce.replace(packed); // a few nodes in a turn
    const current = trial ?? (await openTrial(settings, sources, context));
    current.follow(rules, hashOf(packed));
    if (current !== trial) attach(current);
  };
  const onChange = (): void => {
    const failed = (error: unknown) => context.log.error({ err: error }, 'the candidate cannot be tried');
    last = last.then(follow).catch(failed);
  };
  candidate.onChange(onChange);
  book.onChange(() => {
    const hash = hashOf(book.packed() ?? []);
    if (hash !== liveHash) trial?.beginAnew();
    liveHash = hash;
  });
  if (candidate.packed()) onChange();
  return {
    report: (keys, rule) => trial?.report(keys, rule),
    async close() {
      isClosed = true;
      await last;
      await detach();
    },
  };
}

async function openTrial(
  settings: Pick<Settings, 'counters' | 'candidate'>,
  { core: { store }, decider, isLate }: CandidateSources,
  context: ProcessContext,
): Promise<Trial> {
  const [{ Trial: TrialOf }, { openTrialCounters }, { createEstimates }] = await Promise.all([
    import('../candidate/trial.ts'),
    import('./candidate-counters.ts'),
    import('../ledger/estimates.ts'),
  ]);
  const { memory } = store;
  const { clock } = context;
  // counters in memory have just been asked, in the same turn
  const decidedAtMs = memory
    ? (live: Answer) => (live.verdicts.some(({ kind }) => kind === 'limited') ? memory.ranAtMs() : clock())
    : clock;
  return new TrialOf({
    decider: { ...decider, estimates: createEstimates() },
    counters: await openTrialCounters(settings, context),
    ...{ decidedAtMs, clock, isLate, ...settings.candidate },
    later: (run) => void setImmediate(run),
  });
}
