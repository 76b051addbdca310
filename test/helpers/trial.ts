import { createRlsService, type RlsService } from '../../src/edge/rls/service.ts';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { Answer, Decider } from '../../src/engine/decide/decide.ts';
import type { Overrides } from '../../src/engine/decide/overrides.ts';
import { createEstimates } from '../../src/engine/ledger/estimates.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import type { TriedRequest } from '../../src/parts/candidate/comparison.ts';
import { Trial } from '../../src/parts/candidate/trial.ts';
import { callerWith } from './caller.ts';
import type { FakeClock } from './clock.ts';
import { extrasOf } from './extras.ts';
import { ledgerOf } from './ledger.ts';

type TrialOptions = ConstructorParameters<typeof Trial>[0];

/** Modes that apply to all rules. */
export type Modes = Pick<Decider, 'shadowMode' | 'quotaMode' | 'spend'>;

export const noModes: Modes = { shadowMode: false, quotaMode: false, spend: 'each' };

interface TrialSetup {
  readonly time: FakeClock;
  readonly live: RuleTree;
  /** Undefined: `trial.follow` begins the trial. */
  readonly candidate?: RuleTree;
  readonly modes?: Modes;
  readonly overrides?: Overrides;
  /** Opens the candidate's counters; absent: they are in memory. */
  readonly open?: (clock: () => number) => Backend;
  readonly maxCounters?: number;
  readonly options?: Partial<TrialOptions>;
}

/** A service with a candidate; `flush` makes the candidate's pending decisions. */
export function tryCandidate({
  time,
  live,
  candidate,
  modes = noModes,
  overrides,
  open,
  maxCounters = 1_000,
  options = {},
}: TrialSetup) {
  const common = { ...modes, storeBudget: () => 5_000, ...(overrides && { overrides }) };
  const counters = ownCounters(createCounterKeys(''));
  const memory = createMemoryBackend(time, { maxCounters });
  const decider: Decider = {
    ...{ ...common, clock: time, counters, rules: () => live, estimates: createEstimates() },
    ledger: ledgerOf(memory, { clock: time }),
  };
  let nowMs = 0;
  const clock = (): number => nowMs;
  const ledger = ledgerOf(open?.(clock) ?? createMemoryBackend(clock, { maxCounters }), { clock });
  const tried: TriedRequest[] = [];
  const turns: (() => void)[] = [];
  const trial = new Trial({
    decider: { ...common, estimates: createEstimates() },
    counters: {
      ...{ ledger, counters: ownCounters(createCounterKeys('candidate|')), evicted: () => 0 },
      setTime: (ms) => {
        nowMs = ms;
      },
    },
    decidedAtMs: (answer) => (answer.verdicts.some(({ kind }) => kind === 'limited') ? memory.ranAtMs() : time()),
    ...{ clock: time, sample: 1, maxInFlight: 10_000, isBehind: () => false },
    later: (run) => void turns.push(run),
    onTried: (request) => void tried.push(request),
    ...options,
  });
  if (candidate) trial.follow(candidate, 'candidate');
  const service = createRlsService(decider, extrasOf(), {
    answered: (request, answer, { timeoutMs }) => trial.answered(request, answer, timeoutMs),
    failed: () => {},
  });
  return {
    trial,
    /** The answers of both, in order. */
    tried,
    ask: (request: WireRequest, timeoutMs = Number.POSITIVE_INFINITY) => askOf(service, request, timeoutMs),
    /** Lets the candidate decide all pending requests. */
    flush: () => {
      for (let turn = turns.shift(); turn; turn = turns.shift()) turn();
    },
  };
}

/** A service with these rules, and its answers in order. */
export function serviceWith(
  rules: RuleTree,
  {
    modes = noModes,
    overrides,
    backend,
    clock,
  }: Pick<TrialSetup, 'modes' | 'overrides'> & {
    readonly backend: Backend;
    readonly clock: () => number;
  },
) {
  const answers: Answer[] = [];
  const service = createRlsService(
    {
      ...{ ...modes, clock, storeBudget: () => 5_000, ...(overrides && { overrides }), rules: () => rules },
      ...{ counters: ownCounters(createCounterKeys('')), estimates: createEstimates() },
      ledger: ledgerOf(backend, { clock }),
    },
    extrasOf(),
    { answered: (_, answer) => void answers.push(answer), failed: () => {} },
  );
  return {
    answers,
    ask: (request: WireRequest, timeoutMs = Number.POSITIVE_INFINITY) => askOf(service, request, timeoutMs),
  };
}

const askOf = (service: RlsService, request: WireRequest, timeoutMs: number): PromiseLike<void> =>
  service.shouldRateLimit(request, callerWith(timeoutMs), () => {});

/** The contents of an answer, without rule objects. */
export const plainAnswer = ({ overallCode, shadowed, delayMs, verdicts }: Answer): object => ({
  ...{ overallCode, shadowed, delayMs },
  verdicts: verdicts.map((verdict) =>
    verdict.kind === 'limited'
      ? { kind: 'limited', rule: verdict.rule.path, code: verdict.code, decision: verdict.decision }
      : { kind: verdict.kind },
  ),
});

/** A request of the domain `demo`. Each descriptor is written `key=value,…`, with a number of hits after a `*`. */
export function requestOf(...descriptors: readonly string[]): WireRequest {
  return {
    domain: 'demo',
    descriptors: descriptors.map((written) => {
      const [, entries = '', hits] = /^(.*?)(?:\*(-?\d+))?$/.exec(written) ?? [];
      const value = Math.abs(Number(hits ?? 1));
      return {
        entries: entries.split(',').map((entry) => {
          const [key = '', text = ''] = entry.split('=');
          return { key, value: text };
        }),
        ...{ limit: null, hits_addend: { value }, is_negative_hits: Number(hits ?? 1) < 0 },
      };
    }),
    hits_addend: 0,
  };
}
