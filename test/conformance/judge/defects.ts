import type { Algorithm } from '../../../conformance/src/judge/limits.ts';
import type { Answer, State, Step } from './limiters.ts';

/** A fault of a limiter, as servers have had them. */
export interface Defect {
  readonly name: string;
  readonly of: Algorithm;
  /** Changes the step. */
  readonly step?: (correct: Step) => Step;
  /** Changes what surrounds the step. */
  readonly server?: Partial<Surroundings>;
}

/** What surrounds a step in a server. */
export interface Surroundings {
  /** The state is read, and written this much later. */
  readonly raceMs: number;
  /** How far the clock of a server's second instance is ahead; connections are spread over both. */
  readonly skewMs: number;
  /** Each instance has counters of its own. */
  readonly sharded: boolean;
  /** This share of the steps is made twice, as by a retry. */
  readonly repeated: number;
  /** Counters are lost this often. */
  readonly lossEveryMs: number;
  /** Two keys share a counter if they are equal in this many characters at the end. */
  readonly collidesIn: number;
  /** A refusal is remembered for this long, whatever the counter says. */
  readonly remembersMs: number;
}

const ofHits =
  (hits: (one: number) => number) =>
  (correct: Step): Step =>
  (state, call, limit) =>
    correct(state, { ...call, hits: call.hits < 0 ? call.hits : hits(call.hits) }, limit);

const ofLimit =
  (more: number) =>
  (correct: Step): Step =>
  (state, call, limit) =>
    correct(state, call, { ...limit, limit: limit.limit + more, burst: limit.burst + more });

const ofWindow =
  (factor: number) =>
  (correct: Step): Step =>
  (state, call, limit) =>
    correct(state, call, { ...limit, windowMs: limit.windowMs * factor, ttlMs: limit.ttlMs * factor });

const ofAnswer =
  (change: (answer: Answer, state: State) => Answer) =>
  (correct: Step): Step =>
  (state, call, limit) =>
    change(correct(state, call, limit), state);

/** A refused call is counted although it was refused. */
const chargesRefused =
  (charge: (state: State, hits: number, nowMs: number) => void) =>
  (correct: Step): Step =>
  (state, call, limit) => {
    const answer = correct(state, call, limit);
    if (!answer.passes) charge(state, call.hits, call.nowMs);
    return answer;
  };

export const defects: readonly Defect[] = [
  { name: 'two steps read the same count', of: 'fixed_window', server: { raceMs: 3 } },
  { name: 'two steps read the same log', of: 'sliding_window_log', server: { raceMs: 3 } },
  { name: 'two steps read the same tokens', of: 'token_bucket', server: { raceMs: 3 } },
  { name: 'two steps read the same holders', of: 'in_flight', server: { raceMs: 3 } },
  { name: 'a retry charges twice', of: 'fixed_window', server: { repeated: 0.05 } },
  { name: 'the window of one instance begins earlier', of: 'fixed_window', server: { skewMs: 300 } },
  { name: 'each instance has its own counter', of: 'fixed_window', server: { sharded: true } },
  { name: 'each instance has its own log', of: 'sliding_window_log', server: { sharded: true } },
  { name: 'a failover loses counters', of: 'fixed_window', server: { lossEveryMs: 700 } },
  { name: 'a failover fills buckets', of: 'token_bucket', server: { lossEveryMs: 700 } },
  { name: 'keys collide', of: 'fixed_window', server: { collidesIn: 1 } },
  { name: 'a refusal outlives its window', of: 'fixed_window', server: { remembersMs: 1_000 } },
  { name: 'a refusal outlives its log', of: 'sliding_window_log', server: { remembersMs: 1_500 } },
  { name: 'a refusal outlives its tokens', of: 'token_bucket', server: { remembersMs: 2_000 } },
  { name: 'one hit too many', of: 'fixed_window', step: ofLimit(1) },
  { name: 'one hit too few', of: 'fixed_window', step: ofLimit(-1) },
  { name: 'each call counts as one hit', of: 'fixed_window', step: ofHits(() => 1) },
  { name: 'a key without expiry', of: 'fixed_window', step: ofWindow(1e6) },
  {
    name: 'remaining is that of before',
    of: 'fixed_window',
    step: ofAnswer((a) => ({ ...a, remaining: a.remaining + 1 })),
  },
  { name: 'a reset after a whole window', of: 'fixed_window', step: ofAnswer((a) => ({ ...a, resetMs: 4_000 })) },
  { name: 'the log forgets early', of: 'sliding_window_log', step: ofWindow(0.7) },
  {
    name: 'refused hits stay in the log',
    of: 'sliding_window_log',
    step: chargesRefused((state, hits, nowMs) => {
      state.log = [...state.log, [nowMs, hits]];
    }),
  },
  {
    name: 'the previous window is forgotten',
    of: 'sliding_window_counter',
    step: (correct) => (state, call, limit) => {
      const answer = correct(state, call, limit);
      state.previous = 0;
      return answer;
    },
  },
  { name: 'tokens come too fast', of: 'token_bucket', step: ofWindow(0.6) },
  { name: 'tokens come too slowly', of: 'token_bucket', step: ofWindow(2) },
  {
    name: 'tokens are rounded up at each call',
    of: 'token_bucket',
    step: (correct) => (state, call, limit) => {
      const answer = correct(state, call, limit);
      state.tokens = Math.ceil(state.tokens);
      return answer;
    },
  },
  {
    name: 'refused calls take tokens',
    of: 'leaky_bucket',
    step: chargesRefused((state) => {
      state.tokens = Math.max(0, state.tokens - 1);
    }),
  },
  { name: 'holders expire early', of: 'in_flight', step: ofWindow(0.02) },
  {
    name: 'releases are ignored',
    of: 'in_flight',
    step: (correct) => (state, call, limit) =>
      call.hits < 0 ? { passes: true, remaining: 0 } : correct(state, call, limit),
  },
  {
    name: 'a release frees another holder too',
    of: 'in_flight',
    step: (correct) => (state, call, limit) => {
      const answer = correct(state, call, limit);
      const [other] = state.holds.keys();
      if (call.hits < 0 && other !== undefined) state.holds = new Map([...state.holds].slice(1));
      return answer;
    },
  },
];
