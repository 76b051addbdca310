import { isPending } from '../../base/later.ts';
import { TooCostly } from '../../base/request-work.ts';
import { MAX_UINT32 } from '../../edge/wire/wire.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import { type CounterKeys, createCounterKeys, ownCounters } from '../../engine/backends/key.ts';
import type { MemoryBackend } from '../../engine/backends/memory/backend.ts';
import { type Decider, decide, InvalidRequest, type Verdict } from '../../engine/decide/decide.ts';
import { createOfflineDecider } from '../../engine/decide/offline.ts';
import { Overrides } from '../../engine/decide/overrides.ts';
import { shownRemaining } from '../../engine/decide/shown.ts';
import { createEstimates } from '../../engine/ledger/estimates.ts';
import { countedBy } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { hashBlind } from './hashed-values.ts';
import type { TrafficCounts } from './input.ts';
import type {
  RecordedRequest,
  RecordedTraffic,
  ReplayedAnswer,
  ReplayedDescriptor,
  ReplayObserver,
} from './request.ts';

/** Settings of the service, besides the rules, that affect decisions. */
interface EngineOptions extends Pick<Decider, 'shadowMode' | 'quotaMode' | 'spend'> {
  /** Limits at which counters are evicted, as in a service with counters in memory. */
  readonly memory: { readonly maxCounters: number; readonly maxBytes: number };
}

/** Answers recorded requests as a service with counters in memory would have answered at that time. */
export class ReplayEngine {
  readonly #decider: Decider;
  readonly #memory: MemoryBackend;
  readonly #overrides: Overrides;
  readonly #keys: CounterKeys = createCounterKeys('');
  #nowMs = 0;
  /** Whether the current request has hashed values. */
  #isHashed = false;

  constructor(rules: RuleTree, { memory, ...modes }: EngineOptions) {
    const clock = (): number => this.#nowMs;
    const blind = hashBlind(rules);
    const offline = createOfflineDecider(clock, modes, memory);
    this.#memory = offline.memory;
    this.#overrides = new Overrides(clock, (unit) => unitMs[unit]);
    this.#decider = {
      ...offline,
      rules: () => (this.#isHashed ? blind : rules),
      overrides: this.#overrides,
      estimates: createEstimates(),
      counters: ownCounters(this.#keys),
    };
  }

  /** Counters that were evicted before they expired. */
  get evicted(): number {
    return this.#memory.held().evicted;
  }

  /** @throws InvalidRequest if the service would reject the request */
  answer({ timeMs, request, timeoutMs, overrides, hashedBy }: RecordedRequest): ReplayedAnswer {
    this.#nowMs = timeMs;
    this.#isHashed = hashedBy !== undefined;
    if (overrides) this.#overrides.replace(overrides);
    const answer = decide(request, this.#decider, timeoutMs ?? Number.POSITIVE_INFINITY);
    if (isPending(answer)) throw new Error('counters in memory answer without a promise');
    const descriptors = answer.verdicts.map((verdict) => this.#describe(verdict, request.domain));
    return { code: answer.overallCode, descriptors };
  }

  #describe(verdict: Verdict, domain: string): ReplayedDescriptor {
    switch (verdict.kind) {
      case 'limited': {
        const { rule, found, code, limit, decision, beside } = verdict;
        const { requestsPerUnit, windowMs, currency } = limit;
        const shown = {
          rule: rule.path,
          key: this.#keys(limit, domain, countedBy(found)), // children of shared limits are listed by themselves
          code,
          remaining: shownRemaining(verdict),
          hits: verdict.hits,
          ...(!found.overridden && { limit: requestsPerUnit, windowMs, ...(currency !== undefined && { currency }) }),
          ...(beside && { beside: this.#describe(beside, domain) }),
        };
        return code === decision.code ? shown : { ...shown, wouldRefuse: true };
      }
      case 'unlimited':
        return { rule: verdict.rule.path, code: 'OK', remaining: MAX_UINT32 };
      default:
        return { code: 'OK', remaining: 0 };
    }
  }
}

/** The rules that answer requests, and the receivers of the answers. */
interface Replay {
  readonly rules: ReplayEngine;
  readonly against: ReplayEngine | undefined;
  readonly observers: readonly ReplayObserver[];
  readonly counts: TrafficCounts;
  /** Called after each batch, before the next one is read. */
  readonly onBatch?: () => Promise<void> | void;
}

/** Answers requests in order. A request that the service would reject counts as a broken line. */
export async function replay(traffic: RecordedTraffic, run: Replay): Promise<void> {
  for await (const requests of traffic) {
    for (const recorded of requests) replayOne(recorded, run);
    await run.onBatch?.();
  }
}

/** The answer to a request, whose response follows at once if it passes. */
function answerWhole(rules: ReplayEngine, recorded: RecordedRequest): ReplayedAnswer {
  const answer = rules.answer(recorded);
  const { report: request } = recorded;
  if (request && answer.code === 'OK') rules.answer({ ...recorded, request });
  return answer;
}

function replayOne(recorded: RecordedRequest, { rules, against, observers, counts }: Replay): void {
  try {
    const answer = answerWhole(rules, recorded);
    const other = against && answerWhole(against, recorded);
    for (const observer of observers) observer.observe(recorded, answer, other);
  } catch (error) {
    if (!(error instanceof InvalidRequest || error instanceof TooCostly)) throw error;
    counts.addBroken(`request at ${recorded.timeMs}: ${error.message}`);
  }
}
