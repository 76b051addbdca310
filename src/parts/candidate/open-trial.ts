import { randomUUID } from 'node:crypto';
import { monotonicMs } from '../../base/clock.ts';
import { createCounterKeys, ownCounters } from '../../engine/backends/key.ts';
import { watchLateness } from '../../engine/backends/lateness.ts';
import type { Answer, Decider } from '../../engine/decide/decide.ts';
import { createEstimates } from '../../engine/ledger/estimates.ts';
import { Ledger } from '../../engine/ledger/ledger.ts';
import { openBackends } from '../../engine/open/backends.ts';
import type { OpenStore } from '../../engine/open/store.ts';
import { loggedCounters, startStore } from '../../serve/decider/store.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';
import type { Settings } from '../../settings/settings.ts';
import type { StoreSettings } from '../../settings/stores.ts';
import { Trial } from './trial.ts';

/** The store and decider of the current rules, and whether this process is refusing calls because it is overloaded. */
interface TrialSources extends Pick<TrialOptions, 'isBehind'> {
  readonly store: Pick<OpenStore, 'memory'>;
  readonly decider: Decider;
}

type TrialOptions = ConstructorParameters<typeof Trial>[0];

/**
 * Opens the trial of a candidate. Only loaded while there is one.
 *
 * @throws CannotStart if a certificate file cannot be read
 */
export async function openTrial(
  settings: Pick<Settings, 'counters' | 'candidate'>,
  { store: { memory }, decider, isBehind }: TrialSources,
  context: ProcessContext,
): Promise<Trial> {
  const { clock } = context;
  return new Trial({
    decider: { ...decider, estimates: createEstimates() },
    counters: await openTrialCounters(settings, context),
    decidedAtMs: (live) => decidedAtMs(live, memory) ?? clock(),
    clock,
    isBehind,
    ...settings.candidate,
    later: (run) => void setImmediate(run),
  });
}

/** Time of the counters that decided; undefined if none did, or they were not asked. */
function decidedAtMs({ verdicts }: Answer, memory: OpenStore['memory']): number | undefined {
  for (const verdict of verdicts) {
    if (verdict.kind !== 'limited') continue;
    if (memory) return memory.ranAtMs(); // they have just run the request, in the same turn
    if (verdict.decision.chargedAtMs !== undefined) return verdict.decision.chargedAtMs;
  }
  return undefined;
}

/** Precedes the names of the candidate's counters, after `CACHE_KEY_PREFIX`. */
const CANDIDATE_PREFIX = 'candidate|';
/** A slower call counts as failed; no caller waits for it. */
const SLOW_MS = 1_000;
/** Fraction of the memory for counters that the candidate's may take in addition. */
const MEMORY_PART = 1 / 2;

/**
 * Opens the candidate's counters: on a separate connection to the same store, so that neither delays the other, without
 * leases, remembered refusals and failure policies.
 *
 * @throws CannotStart if a certificate file cannot be read
 */
async function openTrialCounters(
  { counters, candidate }: Pick<Settings, 'counters' | 'candidate'>,
  { clock, log }: ProcessContext,
): Promise<TrialOptions['counters']> {
  let nowMs = clock();
  const own = (): number => nowMs;
  const lateness = watchLateness(monotonicMs);
  const { memory, keys } = counters;
  const prefix = `${keys.prefix}${CANDIDATE_PREFIX}`;
  const settings: Settings['counters'] = {
    ...counters,
    storeTimeoutMs: SLOW_MS,
    usage: false,
    store: candidateStore(counters.store, candidate.redis),
    memory: { ...memory, maxBytes: Math.floor(memory.maxBytes * MEMORY_PART) },
    keys: { ...keys, kind: 'own', prefix },
  };
  const clocks = { clock: own, monotonicMs };
  const logged = { clock: own, log: log.child({}, { msgPrefix: 'candidate: ' }) };
  const { onStoreEvent = () => {}, ...options } = loggedCounters(settings, logged);
  const context = { ...clocks, isOnClock: true, lateness, onStoreEvent };
  const opened = await startStore(() => openBackends(options, context));
  const ledger = new Ledger(opened.backends, {
    ...{ ...clocks, instance: randomUUID(), denyCacheBytes: 0 },
    every: () => () => {},
  });
  return {
    ledger: {
      debit: (debits, how) => ledger.debit(debits, how),
      async close() {
        await ledger.close();
        lateness.close();
      },
    },
    counters: ownCounters(createCounterKeys(prefix, keys)),
    setTime: (ms) => {
      nowMs = ms;
    },
    evicted: () => opened.memory?.held().evicted ?? 0,
  };
}

function candidateStore(store: StoreSettings, redis: Settings['candidate']['redis']): StoreSettings {
  if (store.kind !== 'redis') return store;
  return { ...store, main: redis ?? store.main, perSecond: undefined };
}
