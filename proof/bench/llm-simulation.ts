import type { CounterDecision, Operation, Replies } from '../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { atLeast, createEstimates, usedDebit } from '../../src/engine/ledger/estimates.ts';
import type { ReservationLimit } from '../../src/parts/reservations/reservation.ts';
import { heldBy, operationOf } from '../../test/helpers/operations.ts';
import { randomOf } from '../../test/helpers/random.ts';

/** The size of reservations: by the counter's history, fixed, or none, so that requests are charged at their end. */
export type ReservePolicy = 'p95' | number | 'charge at the end';

interface SimulationResult {
  readonly requests: number;
  readonly refused: number;
  /** Requests refused although they and all running requests would have fitted into the limit. */
  readonly refusedInVain: number;
  /** Maximum that any tenant used beyond its limit, as a fraction of the limit. */
  readonly maxOverspent: number;
  /** Tokens used while their tenant was beyond its limit, as a fraction of all tokens. */
  readonly overspentShare: number;
}

/** Each tenant's limit per minute, and its burst. */
const LIMIT = 100_000;
const MINUTE_MS = 60_000;
const TENANTS = 20;
/** The demand of all tenants, relative to the sum of their limits. */
const DEMAND = 1.2;
/** The distribution of answers: log-normal, with a different median for each tenant. */
const MEDIANS = [150, 1_500] as const;
const SIGMA = 1.2;
const MAX_TOKENS = 16_000;
const TOKENS_PER_SECOND = 60;

/** A tenant's request, which streams an answer; lengths of answers differ widely. */
interface SimulatedRequest {
  readonly tenant: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly tokens: number;
}

const limit: ReservationLimit = {
  algorithm: 'reservation',
  counter: 'llm',
  requestsPerUnit: LIMIT,
  soft: 0,
  windowMs: MINUTE_MS,
  inner: {
    algorithm: 'token_bucket',
    counter: 'llm',
    requestsPerUnit: LIMIT,
    soft: 0,
    windowMs: MINUTE_MS,
    burst: LIMIT,
    refill: 'continuous',
    maxDelayMs: 0,
  },
  ttlMs: 5 * MINUTE_MS,
  onOverrun: 'debt',
  onLapse: 'free',
};

/** Generates the same requests for every policy. */
function* generateTrace(requests: number): Generator<SimulatedRequest> {
  const random = randomOf(20_270);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const tenantMedian = (tenant: number): number => MEDIANS[0] * (MEDIANS[1] / MEDIANS[0]) ** (tenant / (TENANTS - 1));
  const tenantMean = (tenant: number): number => tenantMedian(tenant) * Math.exp(SIGMA ** 2 / 2);
  const perMs = Array.from({ length: TENANTS }, (_, tenant) => (DEMAND * LIMIT) / MINUTE_MS / tenantMean(tenant));
  let total = 0;
  const upTo = perMs.map((rate) => {
    total += rate;
    return total;
  });
  let startMs = 1_700_000_000_000;
  for (let count = 0; count < requests; count++) {
    startMs += -Math.log(1 - random()) / total;
    const pick = random() * total;
    const tenant = upTo.findIndex((end) => pick < end);
    const tokens = Math.min(Math.max(Math.round(tenantMedian(tenant) * Math.exp(SIGMA * normal())), 1), MAX_TOKENS);
    yield {
      tenant,
      startMs: Math.floor(startMs),
      endMs: Math.floor(startMs + (tokens / TOKENS_PER_SECOND) * 1_000),
      tokens,
    };
  }
}

/** Runs the trace through the service's counters, on a simulated clock. */
export function simulate(requests: number, policy: ReservePolicy): SimulationResult {
  let nowMs = 0;
  const backend = createMemoryBackend(() => nowMs, { maxCounters: 2 * TENANTS });
  const estimates = createEstimates();
  const own: ReservationLimit = policy === 'charge at the end' ? limit : { ...limit, estimate: policy };
  const run = (operation: Operation): CounterDecision => {
    const [reply] = backend.run([operation], { spend: 'each', timeoutMs: 0 }) as Replies; // in memory, replies are synchronous
    if (!reply || reply.code === 'UNAVAILABLE') throw new Error('the counters gave no reply');
    return reply;
  };
  const tenantKey = (tenant: number) => `tenant ${tenant}` as CounterKey; // any key will do
  const running = new Array<number>(TENANTS).fill(0); // tokens that the running requests will have used
  const ends: (SimulatedRequest & { readonly holder: number })[] = []; // a heap whose first item ends first
  const sums = { refused: 0, refusedInVain: 0, maxOverspent: 0, overspent: 0, used: 0 };
  const finishUntil = (untilMs: number): void => {
    for (let first = ends[0]; first && first.endMs <= untilMs; first = ends[0]) {
      pop(ends);
      const { tenant, tokens, holder, endMs } = first;
      nowMs = endMs;
      running[tenant] = (running[tenant] ?? 0) - tokens;
      const counter = { key: tenantKey(tenant) };
      run({ ...usedDebit(counter, { limit: own, policy: {} }, tokens, estimates), holder, commits: true });
      const { hitsBefore, reservation } = run(operationOf(counter, own, 0, true));
      const beyond = Math.max(hitsBefore - (reservation?.held ?? 0) - LIMIT, 0);
      sums.maxOverspent = Math.max(sums.maxOverspent, beyond / LIMIT);
      sums.overspent += Math.min(beyond, tokens);
      sums.used += tokens;
    }
  };
  let holder = 0;
  for (const one of generateTrace(requests)) {
    finishUntil(one.startMs);
    nowMs = one.startMs;
    holder++;
    const counter = { key: tenantKey(one.tenant) };
    const hits = policy === 'charge at the end' ? 0 : atLeast(own, counter, 1, estimates);
    const { code, hitsBefore, reservation } = run(heldBy(operationOf(counter, own, hits, true), holder));
    if (code === 'OK') {
      running[one.tenant] = (running[one.tenant] ?? 0) + one.tokens;
      push(ends, { ...one, holder });
      continue;
    }
    sums.refused++;
    const used = hitsBefore - (reservation?.held ?? 0);
    if (used + (running[one.tenant] ?? 0) + one.tokens <= LIMIT) sums.refusedInVain++;
  }
  finishUntil(Number.POSITIVE_INFINITY);
  const { refused, refusedInVain, maxOverspent, overspent, used } = sums;
  return { requests, refused, refusedInVain, maxOverspent, overspentShare: overspent / used };
}

function push<E extends { readonly endMs: number }>(heap: E[], one: E): void {
  let at = heap.push(one) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if ((heap[parent] as E).endMs <= one.endMs) break; // a valid index
    heap[at] = heap[parent] as E;
    at = parent;
  }
  heap[at] = one;
}

function pop<E extends { readonly endMs: number }>(heap: E[]): void {
  const last = heap.pop();
  if (!last || heap.length === 0) return;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && (heap[child + 1] as E).endMs < (heap[child] as E).endMs) child++; // valid indexes
    if ((heap[child] as E).endMs >= last.endMs) break;
    heap[at] = heap[child] as E;
    at = child;
  }
  heap[at] = last;
}
