import { createHash } from 'node:crypto';
import { type Charge, MAX_COUNT, type State, type Step, unitMs } from '../../src/engine/algorithms/limit.ts';
import type { Claim, SiteTransfer } from '../../src/engine/holds/claim.ts';
import {
  algorithmFor,
  fullCapacity,
  hasHolders,
  isShared,
  type Limit,
  limitsInFlight,
  type SharedLimit,
} from '../../src/engine/holds/limits.ts';
import { isSiteShare, type SiteShareLimit } from '../../src/parts/sites/site-share.ts';
import { randomOf } from './random.ts';

/** One step on a counter: of its hits, or the refund of those that an earlier one charged. */
export interface Drawn {
  readonly nowMs: number;
  readonly hits: number;
  readonly charge: Charge;
  /** Of a refund. */
  readonly chargedAtMs: number | undefined;
  readonly claim: Claim;
}

const START_MS = 1_700_000_000_000;

/** Draws steps on one counter, the same for the same seed: hits around the capacity, a clock that may run backwards. */
export function drawSteps(limit: Limit, seed: number, count: number): readonly Drawn[] {
  const random = randomOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const oneOf = <T>(choices: readonly T[]): T => choices[below(choices.length)] as T; // in range
  const capacity = fullCapacity(limit);
  const lifeMs = limit.algorithm === 'reservation' ? limit.ttlMs : limit.windowMs;
  const charged: number[] = [START_MS];
  let nowMs = START_MS;
  return Array.from({ length: count }, () => {
    const lifeEndMs = (charged[below(charged.length)] ?? 0) + lifeMs; // of hits that were charged then
    nowMs += oneOf([
      Math.max(lifeEndMs - nowMs, 0),
      0,
      0,
      1,
      below(9),
      below(limit.windowMs / 8),
      below(limit.windowMs),
      -below(9),
      -below(5_000),
    ]);
    const ordinary = oneOf([1, 1, 1, 2, 3, below(9), -1, -below(5)]);
    const hits = oneOf([
      ordinary,
      ordinary,
      ordinary,
      0,
      capacity,
      capacity + 1,
      -capacity,
      below(20) === 0 ? MAX_COUNT : 1,
    ]);
    const isRefund = below(8) === 0;
    const chargedAtMs = isRefund ? (charged[below(charged.length)] ?? 0) : undefined;
    const charge = oneOf([true, true, true, true, false, 'regardless'] as const);
    const holder = hasHolders(limit) ? below(9) : 0;
    const share = isShared(limit) && drawShare(limit, below);
    const transfer = isSiteShare(limit) && drawTransfer(limit, nowMs, below);
    const commit = limit.algorithm === 'reservation' && { commits: below(3) === 0 };
    const outcome = limit.algorithm === 'adaptive' && {
      status: oneOf([0, 0, 200, 404, 503]),
      threshold: oneOf([100, 60]),
    };
    charged.splice(below(8), 1, nowMs);
    const claim = { holder, ...share, ...transfer, ...commit, ...outcome };
    return { nowMs, hits: isRefund ? Math.abs(hits) : hits, charge, chargedAtMs, claim };
  });
}

function drawShare(limit: SharedLimit, below: (bound: number) => number): Claim {
  const children = [1 + below(4), 9 + below(3)];
  if (limitsInFlight(limit)) return { slotShare: { children: children.slice(0, below(3)) } };
  return { share: { children, ...(below(3) === 0 && { threshold: 40 + 20 * below(4) }) } };
}

/** Both sides of transfers, in any epoch; often none. */
function drawTransfer(limit: SiteShareLimit, nowMs: number, below: (bound: number) => number): Claim {
  const lengthMs = limit.of === 'token_bucket' ? unitMs.MINUTE : limit.windowMs;
  const epochMs = nowMs - (nowMs % lengthMs) - (below(10) === 0 ? lengthMs : 0);
  const peer = below(limit.sites);
  const choices: readonly SiteTransfer[] = [
    { kind: 'read' },
    { kind: 'lend', peer, epochMs, taken: below(30), among: 1 + below(3) },
    { kind: 'take', peer, epochMs, given: below(60), sentMs: nowMs - below(1_200), repliedMs: nowMs },
  ];
  const transfer = choices[below(choices.length + 2)];
  return transfer ? { transfer } : {};
}

/** Draws requests in flight that last longer as there are more of them; some fail, and some releases are lost. */
export function drawLoad(seed: number, requests: number): readonly Drawn[] {
  const random = randomOf(seed);
  const steps: Drawn[] = [];
  let nowMs = START_MS;
  for (let holder = 1; holder <= requests; holder++) {
    nowMs += Math.floor(random() * 20) + (random() < 0.005 ? 15_000 : 0);
    const isFailing = holder % 900 > 800 ? 0.3 : 0.01;
    const status = random() < isFailing ? 503 : ([0, 200, 404][Math.floor(random() * 3)] ?? 0);
    const heldMs = Math.floor((holder % 400 > 250 ? 400 : 100) * (0.5 + random()));
    const common = { charge: true, chargedAtMs: undefined } as const;
    steps.push({ ...common, nowMs, hits: 1, claim: { holder } });
    if (random() < 0.98) steps.push({ ...common, nowMs: nowMs + heldMs, hits: -1, claim: { holder, status } });
  }
  return steps.toSorted((one, other) => one.nowMs - other.nowMs);
}

/** Runs steps one after another, from an empty counter. */
export function runSteps(limit: Limit, steps: readonly Drawn[]): readonly Step[] {
  const row = algorithmFor(limit);
  let state: State | undefined;
  return steps.map(({ nowMs, hits, charge, chargedAtMs, claim }) => {
    const step =
      chargedAtMs === undefined
        ? row.step(limit, state, nowMs, hits, charge, claim)
        : row.refund(limit, state, nowMs, hits, chargedAtMs, claim);
    if (chargedAtMs !== undefined || charge !== false) state = step.ttlMs > 0 ? step.state : undefined;
    return step;
  });
}

/** A digest of what steps returned, without the states of those that are not stored. */
export function digestSteps(steps: readonly Drawn[], results: readonly Step[]): string {
  const hash = createHash('sha256');
  for (const [at, { accepted, state, ttlMs, report = state }] of results.entries()) {
    const isStored = steps[at]?.charge !== false || steps[at]?.chargedAtMs !== undefined;
    hash.update(JSON.stringify([accepted, isStored && ttlMs > 0 ? [...state] : [], Math.max(ttlMs, 0), [...report]]));
  }
  return hash.digest('hex').slice(0, 16);
}
