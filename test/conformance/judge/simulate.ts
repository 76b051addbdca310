import type { Line } from '../../../conformance/src/judge/history.ts';
import type { Declaration, Limit } from '../../../conformance/src/judge/limits.ts';
import { freshState, type State, steps } from './limiters.ts';

/** Numbers from 0 to 1. */
export type Random = () => number;

const EPOCH_MS = 1_700_000_000_000;

/**
 * The history that a correct server gives: each call takes effect at one instant within its interval, by a clock within
 * the skew; a call without an answer takes effect later, or never.
 */
export function simulate({ limits, skewMs, lateMs }: Declaration, calls: number, random: Random) {
  const limit = limits[0] as Limit; // declarations of these tests have one
  const offsetMs = (2 * random() - 1) * skewMs;
  const planned = Array.from({ length: calls }, () => plan(limit, calls, lateMs, random));
  for (let at = 1; limit.algorithm === 'in_flight' && at < calls; at += 2)
    release(planned[at], planned[at - 1], at, random);
  const states = new Map<string, State>();
  planned.sort((a, b) => a.atMs - b.atMs);
  const lines = planned.map(({ atMs, isLost, neverArrives, ...call }): Line => {
    if (neverArrives) return { ...call, outcome: 'unknown' };
    const nowMs = EPOCH_MS + atMs + offsetMs;
    const state = states.get(call.key) ?? freshState(limit, nowMs);
    states.set(call.key, state);
    const answer = steps[limit.algorithm](state, { hits: call.hits, holder: call.holder, nowMs }, limit);
    if (isLost) return { ...call, outcome: 'unknown' };
    const resetMs = answer.resetMs === undefined ? {} : { reset_ms: Math.ceil(answer.resetMs / 1_000) * 1_000 };
    return { ...call, outcome: answer.passes ? 'passed' : 'refused', remaining: answer.remaining, ...resetMs };
  });
  return { epochMs: EPOCH_MS, lines };
}

const LONGEST_CALL_MS = 60;
const UNKNOWN_SHARE = 0.05;

interface Plan extends Omit<Line, 'outcome'> {
  key: string;
  start: number;
  end: number;
  hits: number;
  holder: string;
  /** When it takes effect, unless it never arrives. */
  atMs: number;
  readonly isLost: boolean;
  readonly neverArrives: boolean;
}

function plan(limit: Limit, calls: number, lateMs: number, random: Random): Plan {
  const lengthMs = limit.algorithm === 'in_flight' ? calls * 4 : (calls * limit.windowMs) / limit.limit / 4;
  const start = random() * lengthMs;
  const end = start + random() ** 3 * LONGEST_CALL_MS;
  const isLost = random() < UNKNOWN_SHARE;
  return {
    ...{ limit: limit.name, key: `k${Math.floor(random() * 2)}`, start, end },
    hits: 1 + Math.floor(random() * limit.maxHits),
    holder: '',
    atMs: start + random() * ((isLost ? end + lateMs : end) - start),
    isLost,
    neverArrives: isLost && random() < 0.5,
  };
}

/** Makes a call the release of another one, mostly some time after it. */
function release(call: Plan | undefined, of: Plan | undefined, at: number, random: Random): void {
  if (!call || !of) return;
  of.holder = `h${at}`;
  const laterMs = of.end + (random() - 0.1) * MOST_HELD_MS - call.start;
  const { start, end, atMs } = call;
  Object.assign(call, { key: of.key, holder: of.holder, hits: -1 });
  Object.assign(call, { start: start + laterMs, end: end + laterMs, atMs: atMs + laterMs });
  if (call.start < 0) Object.assign(call, { start, end, atMs });
}

const MOST_HELD_MS = 300;
