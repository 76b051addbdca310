import type { Observer } from '../../edge/rls/service.ts';
import type { SiteSplit } from '../../engine/holds/claim.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import type { PackedSource } from '../../serve/link/rules-messages.ts';
import type { TrialReport } from './report.ts';
import type { Trial } from './trial.ts';

/** The candidate in a process that answers requests. */
export type FollowedCandidate = ReturnType<typeof followCandidate>;

interface FollowOptions {
  /** Undefined while there is no candidate. */
  readonly candidate: PackedSource;
  /** The rules in force. */
  readonly book: PackedSource;
  /** The division of limits that sites share. */
  readonly split: SiteSplit | undefined;
  /** Notified of the answers; its methods are replaced while a candidate is tried. */
  readonly observer: Observer;
  readonly openTrial: () => Promise<Trial>;
  readonly onError: (error: unknown) => void;
}

/** Tries the candidate on this process's answers, while there is one. */
export function followCandidate({ candidate, book, split, observer, openTrial, onError }: FollowOptions) {
  const { answered, failed } = observer;
  let trial: Trial | undefined;
  let inForce = new RulesInForce(split);
  let liveHash = hashRules(book.packed() ?? []);
  let last: Promise<void> = Promise.resolve();
  let isClosed = false;

  const attach = (to: Trial): void => {
    trial = to;
    observer.answered = (request, answer, caller) => {
      answered(request, answer, caller);
      to.answered(request, answer, caller.timeoutMs);
    };
    observer.failed = (status, cause, call) => {
      failed(status, cause, call);
      to.failed(cause);
    };
  };
  const detach = async (): Promise<void> => {
    const ended = trial;
    trial = undefined;
    inForce = new RulesInForce(split);
    observer.answered = answered;
    observer.failed = failed;
    await ended?.close();
  };
  const follow = async (): Promise<void> => {
    const packed = candidate.packed();
    if (isClosed || !packed) return detach();
    const rules = await inForce.replace(packed); // a few nodes per turn
    const current = trial ?? (await openTrial());
    current.follow(rules, hashRules(packed));
    if (current !== trial) attach(current);
  };
  const onChange = (): void => {
    last = last.then(follow).catch(onError);
  };
  candidate.onChange(onChange);
  book.onChange(() => {
    const hash = hashRules(book.packed() ?? []);
    if (hash !== liveHash) trial?.beginAnew();
    liveHash = hash;
  });
  if (candidate.packed()) onChange();
  return {
    /**
     * @param keys  the number of keys of each rule
     * @param rule  only this rule
     * @returns undefined  no candidate is tried
     */
    report: (keys: number, rule?: string): TrialReport | undefined => trial?.report(keys, rule),
    isTried: () => trial !== undefined,
    async close(): Promise<void> {
      isClosed = true;
      await last;
      await detach();
    },
  };
}
