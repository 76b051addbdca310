import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { type Entry, match, withIds } from '../../engine/rules/match/match.ts';
import type { Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import { type AdminOptions, type CandidateFacts, noCandidate } from '../../operate/admin/options.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import { describeOverride, listedOverride, type Shown } from '../../operate/admin/shown.ts';
import type { StoreFacts } from '../../operate/observe/table.ts';
import type { TimelineMark } from './answers.ts';

const DAY_MS = 86_400_000;
const MAX_MARKS = 200;
/** Operators' changes this soon after the start were made before it: they are read from the store. */
const START_MS = 2_500;

/** The state whose changes are marked. */
export interface TimelineState {
  readonly reload: { readonly atMs: number; readonly text: string } | undefined;
  readonly problem: string | undefined;
  /** Undefined: counters are in memory. */
  readonly store: Pick<StoreFacts, 'isUp' | 'reason' | 'lastSuccessAtMs'> | undefined;
  readonly candidate: Pick<CandidateFacts, 'state' | 'hash'>;
  readonly overrides: readonly StandingOverride[];
}

export function timelineState({ sourced, store, overrides }: AdminOptions): TimelineState {
  const last = sourced.lastLoad();
  const [problem] = last && !last.ok ? last.problems : [];
  const reloaded = sourced.lastReload();
  return {
    reload: reloaded && { atMs: reloaded.atMs, text: reloaded.reload.text ?? 'no rule has changed' },
    problem: problem && formatProblem(problem),
    store: store(),
    candidate: sourced.candidate?.facts ?? noCandidate,
    overrides: [...overrides.all()],
  };
}

interface Mark extends Pick<TimelineMark, 'atMs' | 'kind' | 'text'> {
  readonly override?: StandingOverride;
}

/** The changes of the last day that explain a plot: reloads, overrides, the candidate, and the state of the store. */
export class Timeline {
  readonly #startedAtMs: number;
  #marks: Mark[] = [];
  #last: TimelineState | undefined;

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  /** To be called once a second. */
  gather(state: TimelineState, nowMs: number): void {
    const last = this.#last;
    this.#last = state;
    if (!last) return;
    this.#marks.push(...changesOfService(last, state, nowMs));
    if (nowMs - this.#startedAtMs > START_MS) this.#marks.push(...changesByOperators(last, state, nowMs));
    this.#marks = this.#marks.slice(-MAX_MARKS).filter(({ atMs }) => nowMs - atMs < DAY_MS);
  }

  /** Those that a client may see, the oldest first; texts of reloads and problems name rules of all domains. */
  marks(
    shown: Shown,
    scope: Pick<Scope, 'hasAll' | 'hasDomain'>,
    isShown: (override: StandingOverride) => boolean = () => true,
  ): readonly TimelineMark[] {
    const all = this.#marks.filter(
      ({ override }) => !override || (scope.hasDomain(override.domain) && isShown(override)),
    );
    return all.map(({ override, ...mark }) => ({
      ...mark,
      text: scope.hasAll ? mark.text : (mark.text.split(/(?<=reloaded|rejected): /)[0] ?? ''),
      ...(override && { domain: override.domain, entries: listedOverride(override, shown).entries }),
    }));
  }
}

/**
 * Whether an override may apply to requests of a rule, or of one of its clients. One with wildcards may apply to all
 * rules with its keys.
 *
 * @param client  the descriptor as it is shown; undefined: any
 */
export function mayConcern(tree: RuleTree, rule: Rule, client: string | undefined, shown: Shown) {
  const counted = rule.levels.filter((_, at) => !rule.ids?.some((id) => id.at === at));
  return (override: StandingOverride): boolean => {
    const { domain, entries, wildcard } = override;
    if (domain !== rule.domain) return false;
    if (wildcard) return [rule.levels, counted].some((levels) => haveKeys(levels, entries));
    if (client !== undefined) return listedOverride(override, shown).descriptor === client;
    return [entries, ...withIds(tree, domain, entries)].some((sent) => {
      const found = match(tree, domain, { entries: sent, requestLimit: undefined });
      return 'rule' in found && found.rule.path === rule.path;
    });
  };
}

const haveKeys = (levels: readonly string[], entries: readonly Entry[]): boolean =>
  levels.length === entries.length && entries.every(({ key }, at) => `${levels[at]}_`.startsWith(`${key}_`));

function* changesOfService(last: TimelineState, now: TimelineState, nowMs: number): Iterable<Mark> {
  const { reload, problem, store } = now;
  if (reload && reload.atMs !== last.reload?.atMs)
    yield { atMs: reload.atMs, kind: 'reload', text: `Rules reloaded: ${reload.text}` };
  if (problem !== undefined && problem !== last.problem)
    yield { atMs: nowMs, kind: 'rejected', text: `New rules rejected: ${problem}` };
  const wasReached = last.store?.lastSuccessAtMs !== undefined; // else the service has just started
  if (store && last.store && wasReached && store.isUp !== last.store.isUp)
    yield store.isUp
      ? { atMs: nowMs, kind: 'store_up', text: 'The store answers again' }
      : { atMs: nowMs, kind: 'store_down', text: `The store does not answer: ${store.reason ?? 'no reason given'}` };
}

function* changesByOperators(last: TimelineState, now: TimelineState, nowMs: number): Iterable<Mark> {
  const { candidate } = now;
  if (candidate.hash !== last.candidate.hash)
    yield candidate.state === 'on'
      ? { atMs: nowMs, kind: 'candidate', text: 'Candidate loaded' }
      : { atMs: nowMs, kind: 'candidate', text: 'Candidate removed' };
  for (const override of without(now.overrides, last.overrides)) {
    const { effect, by } = describeOverride(override);
    yield { atMs: nowMs, kind: 'override', text: `Override set by ${by}: ${effect}`, override };
  }
  for (const override of without(last.overrides, now.overrides))
    yield { atMs: nowMs, kind: 'override', text: 'Override ended', override };
}

/** The overrides of a list that another list does not have. */
function without(some: readonly StandingOverride[], others: readonly StandingOverride[]): readonly StandingOverride[] {
  if (some.length === 0) return [];
  const known = new Set(others.map((one) => JSON.stringify(one)));
  return some.filter((one) => !known.has(JSON.stringify(one)));
}
