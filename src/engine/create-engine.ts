import type { Clock } from '../base/clock.ts';
import { after } from '../base/later.ts';
import { count, flag, type OptionKind, required } from '../base/options.ts';
import { unitMs } from './algorithms/limit.ts';
import type { BackendHealth } from './backends/backend.ts';
import { awaitReady } from './backends/within.ts';
import { type Answer, type Decider, decide, InvalidRequest, type Verdict } from './decide/decide.ts';
import { Overrides } from './decide/overrides.ts';
import { createRefusal, type Refusal } from './decide/refusal.ts';
import { shownDecision } from './decide/shown.ts';
import { type DescribedSpared, describeWouldRefuse } from './decide/would-refuse.ts';
import { createEstimates } from './ledger/estimates.ts';
import type { Ledger } from './ledger/ledger.ts';
import { createStoreBudget } from './ledger/store-budget.ts';
import { openCounters } from './open/backends.ts';
import { createLimitation } from './open/limitation.ts';
import { checkOptions, counterOptions, rules } from './open/option-shapes.ts';
import { type CounterOptions, storeTraits } from './open/options.ts';
import type { RuleOptions } from './open/rule-options.ts';
import type { CurrentRules } from './open/rules.ts';
import { type OpenStore, openStore } from './open/store.ts';
import type { StoreTraits } from './rules/compile/fit.ts';
import type { RuleTree } from './rules/match/tree.ts';

/** The options of an engine. Only `rules` is required. */
export interface EngineOptions extends CounterOptions {
  readonly rules: EngineRules;
  /** Answer OK instead of OVER_LIMIT; hits are counted. Default: false. */
  readonly shadowMode?: boolean;
  /** Treat every rule as a quota rule, which never refuses. Default: false. */
  readonly quotaMode?: boolean;
  /** Verdicts report every limit of a rule, not only the tightest. Default: false. */
  readonly reportsEveryLimit?: boolean;
  /** How long `createEngine` waits for the store; it resolves without it, too. Default: 1,000. */
  readonly startWaitMs?: number;
}

const shape: Readonly<Record<keyof EngineOptions, OptionKind>> = {
  rules: required(rules),
  ...counterOptions,
  shadowMode: flag,
  quotaMode: flag,
  reportsEveryLimit: flag,
  startWaitMs: count,
};

/** Rules that the engine loads, or the current rules of the caller. */
export type EngineRules = RuleOptions | { readonly tree: () => RuleTree | undefined };

/** A request: whether to admit what these descriptors count. */
export interface EngineRequest {
  readonly domain: string;
  readonly descriptors: readonly EngineDescriptor[];
}

/** A list of entries, which the rules match in this order. */
export interface EngineDescriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[];
  /** An integer; 0 peeks, a negative number refunds hits. Default: 1. */
  readonly hits?: number;
}

/** The options of one decision. */
export interface DecideOptions {
  /** The time in which the caller needs the answer; default: unlimited, which leaves 250 ms for the store. */
  readonly timeoutMs?: number;
}

/** Decides requests with the rules and counters of a service, without a service. */
export interface Engine {
  /**
   * Decides one request: all its limits in one step.
   *
   * @returns the answer; `OVER_LIMIT` is an answer, not an error
   * @throws InvalidRequest       no domain, no descriptors or too many, or an invalid number of hits
   * @throws RulesNotLoaded       the caller's `tree` is undefined
   * @throws CountersUnavailable  the store did not answer in time, and the rule's failure policy is to fail
   * @throws TooCostly            the request names too many counters with a long state; nothing was counted
   */
  decide(request: EngineRequest, options?: DecideOptions): Promise<Answer>;
  /** The limits that would have refused a request, such as those in shadow mode, and why they did not; at most 32. */
  wouldRefuse(answer: Answer): readonly DescribedSpared[];
  /** The response that the rule which refuses a request has for it; undefined if there is none, or it passed. */
  refusal(answer: Answer): Refusal | undefined;
  /**
   * Replaces the rules in one step. Limits that are unchanged keep their counters. On failure the rules stay.
   *
   * @throws InvalidOptions  an option of the rules cannot be used
   * @throws InvalidRules  with all problems
   */
  replaceRules(rules: EngineRules): Promise<void>;
  /** Whether the store can be reached. */
  health(): BackendHealth;
  /** Closes all connections, timers and processes. Later decisions are rejected. */
  close(): Promise<void>;
  /** The dependencies of decisions. @internal */
  readonly decider: Decider & { readonly ledger: Ledger; readonly overrides: Overrides };
  /** The store. @internal */
  readonly store: OpenStore;
}

/**
 * Opens an engine: rules, and the store of their counters.
 *
 * @throws InvalidOptions  an option cannot be used
 * @throws InvalidRules    with all problems of the rules
 */
export async function createEngine(given: EngineOptions): Promise<Engine> {
  checkOptions(given, shape);
  const options = { ...given, clock: given.clock ?? Date.now };
  const traits = { ...storeTraits(options), limitation: createLimitation(options) };
  const store = await openStore(options);
  try {
    const rules = await openRules(options.rules, traits);
    await awaitReady(store.ledger, options.startWaitMs); // decisions are also possible without it
    return createEngineFrom(options, { store, rules, traits });
  } catch (error) {
    await store.close();
    throw error;
  }
}

type TimedOptions = EngineOptions & { readonly clock: Clock };

interface EngineParts {
  readonly store: OpenStore;
  readonly rules: CurrentRules;
  readonly traits: StoreTraits;
}

function createEngineFrom(options: TimedOptions, { store, rules, traits }: EngineParts): Engine {
  let current = rules;
  let closing: Promise<void> | undefined;
  const decider = createDecider(options, store, () => current.tree());
  const next = inTurn();
  const replace = async (other: EngineRules): Promise<void> => {
    checkOptions({ rules: other }, { rules: shape.rules });
    const opened = await openRules(other, traits);
    const closed = closing ? opened : current;
    if (!closing) current = opened;
    closed.close();
  };
  const close = async (): Promise<void> => {
    current.close();
    await store.close();
  };
  return {
    decider,
    store,
    async decide(request, { timeoutMs = Number.POSITIVE_INFINITY } = {}) {
      if (closing) throw new Error('the engine is closed');
      return after(decide(toRequest(request), decider, timeoutMs), shown); // `await` would cost a turn
    },
    wouldRefuse: (answer) => describeWouldRefuse(answer) ?? [],
    refusal: (answer) => createRefusal(answer),
    replaceRules: (other) => next(() => replace(other)),
    health: () => store.ledger.health(),
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** Creates a queue for asynchronous work: each task starts when the previous one has ended, successfully or not. */
function inTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.then(ignore, ignore); // keeps no result
    return done;
  };
}

const ignore = (): void => {};

/** Loads YAML and the parser of rules only if the engine reads rules. */
async function openRules(rules: EngineRules, traits: StoreTraits): Promise<CurrentRules> {
  if ('tree' in rules) return { tree: rules.tree, close: () => {} };
  return (await import('./open/rules.ts')).openRules(rules, traits);
}

function createDecider(options: TimedOptions, store: OpenStore, rules: () => RuleTree | undefined): Engine['decider'] {
  const { clock, spend = 'each', shadowMode = false, quotaMode = false, reportsEveryLimit = false } = options;
  return {
    rules,
    ledger: store.ledger,
    counters: openCounters(options, clock),
    clock,
    storeBudget: createStoreBudget(store.lateness.latenessMs, options.storeTimeoutMs),
    shadowMode,
    quotaMode,
    spend,
    reportsEveryLimit,
    estimates: createEstimates(),
    overrides: new Overrides(clock, (unit) => unitMs[unit]),
    metersUsage: options.usage ?? false,
  };
}

/** The numbers that a service would show. */
function shown(answer: Answer): Answer {
  let verdicts: Verdict[] | undefined;
  for (let at = 0; at < answer.verdicts.length; at++) {
    const verdict = answer.verdicts[at] as Verdict; // in range
    const changed = shownVerdict(verdict);
    if (changed === verdict) continue; // the common case
    verdicts ??= answer.verdicts.slice();
    verdicts[at] = changed;
  }
  return verdicts ? { ...answer, verdicts } : answer;
}

function shownVerdict<V extends Verdict>(verdict: V): V {
  if (verdict.kind !== 'limited') return verdict;
  const { applied, beside } = verdict;
  const decision = shownDecision(verdict);
  if (decision === verdict.decision && !applied && !beside) return verdict;
  return {
    ...verdict,
    decision,
    ...(applied && { applied: applied.map((one) => ({ ...one, decision: shownDecision(one) })) }),
    ...(beside && { beside: shownVerdict(beside) }),
  };
}

/** @throws InvalidRequest */
function toRequest({ domain, descriptors }: EngineRequest) {
  return {
    domain,
    descriptors: descriptors.map(({ entries, hits = 1 }) => {
      if (!Number.isSafeInteger(hits)) throw new InvalidRequest(`hits must be an integer, got ${hits}`);
      return { entries, hits, requestLimit: undefined };
    }),
  };
}
