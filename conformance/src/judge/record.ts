import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from '../case.ts';
import { Target } from '../target.ts';
import type { Outcome } from './call.ts';
import type { Line } from './history.ts';
import type { Limit } from './limits.ts';

/** How a server is called. */
export interface Load {
  /** Addresses of the server's instances, `host:port`; clients are spread over them. */
  readonly targets: readonly string[];
  readonly seconds: number;
  /** Calls a second, of all clients together. */
  readonly rate: number;
  /** Connections, each with calls of its own. */
  readonly clients: number;
  /** Distinguishes the keys of this run from those of others. */
  readonly run: string;
  readonly seed: number;
}

const CALL_LIMIT_MS = 2_000;
/** Every fourth call comes with others of the same key at the same time, up to eight. */
const [BURST_SHARE, LARGEST_BURST] = [0.25, 8];
/** Each counter is offered this many times its limit. */
const OFFERED = 2;
/** In-flight requests compete in this number for each slot, but are no more than the second. */
const [HOLDERS_PER_SLOT, MOST_HOLDERS] = [3, 48];
const LONGEST_HOLD_MS = 200;

/**
 * Calls a server and records what it answers.
 *
 * @param write  called with each call after its end
 * @returns  wall clock time of the instant 0, in ms since 1970
 */
export async function record(limits: readonly Limit[], load: Load, write: (line: Line) => void): Promise<number> {
  const zero = performance.now();
  const recorder = new Recorder(load, zero, write);
  const epochMs = Date.now() - (performance.now() - zero);
  try {
    await Promise.all(limits.flatMap((limit, at) => recorder.loopsOf(limit, at, limits.length)));
  } finally {
    recorder.close();
  }
  return epochMs;
}

class Recorder {
  readonly #load: Load;
  readonly #zero: number;
  readonly #write: (line: Line) => void;
  readonly #clients: readonly Target[];
  readonly #untilMs: number;

  constructor(load: Load, zero: number, write: (line: Line) => void) {
    this.#load = load;
    this.#zero = zero;
    this.#write = write;
    this.#untilMs = load.seconds * 1_000;
    this.#clients = Array.from({ length: load.clients }, (_, at) => {
      const target = load.targets[at % load.targets.length] ?? '';
      return new Target({ target, callLimitMs: CALL_LIMIT_MS, ownConnection: true });
    });
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  /** Everything that calls one limit. */
  loopsOf(limit: Limit, at: number, limits: number): readonly Promise<void>[] {
    const perSecond = this.#load.rate / limits;
    const random = randomFrom(this.#load.seed * 1_000 + at);
    if (limit.algorithm === 'in_flight') {
      const holders = Math.min(MOST_HOLDERS, HOLDERS_PER_SLOT * limit.limit);
      return Array.from({ length: holders }, (_, holder) =>
        this.#hold(limit, `h${holder}`, random, holders / perSecond),
      );
    }
    const offered = (OFFERED * Math.max(1, limit.limit) * 1_000) / limit.windowMs;
    const keys = Math.max(1, Math.round((perSecond * (1 + limit.maxHits)) / 2 / offered));
    return this.#clients.map((client) => this.#spend(client, limit, keys, random, this.#clients.length / perSecond));
  }

  get #nowMs(): number {
    return performance.now() - this.#zero;
  }

  /** Spends, alone or in bursts. @param interval  seconds between two calls */
  async #spend(client: Target, limit: Limit, keys: number, random: () => number, interval: number): Promise<void> {
    while (this.#nowMs < this.#untilMs) {
      const key = `${this.#load.run}-${Math.floor(random() * keys)}`;
      const calls = random() < BURST_SHARE ? 2 + Math.floor(random() * (LARGEST_BURST - 1)) : 1;
      const hits = Array.from({ length: calls }, () => 1 + Math.floor(random() * limit.maxHits));
      const begun = this.#nowMs;
      // Calls of a burst take different connections: instances are compared with each other.
      const through = (nth: number): Target =>
        this.#clients[(this.#clients.indexOf(client) + nth) % this.#clients.length] ?? client;
      await Promise.all(hits.map((many, nth) => this.#call(through(nth), limit, key, many)));
      const pauseMs = -Math.log(1 - random()) * interval * calls * 1_000 - (this.#nowMs - begun);
      await sleep(Math.max(0, pauseMs));
    }
  }

  /** Takes a slot again and again, and gives it back after a while if it got one. */
  async #hold(limit: Limit, name: string, random: () => number, interval: number): Promise<void> {
    const key = `${this.#load.run}-0`;
    for (let turn = 0; this.#nowMs < this.#untilMs; turn++) {
      const holder = `${this.#load.run}-${name}-${turn}`;
      const client = this.#clients[Math.floor(random() * this.#clients.length)];
      if (!client) return;
      const outcome = await this.#call(client, limit, key, 1, holder);
      if (outcome === 'passed') {
        await sleep(random() * LONGEST_HOLD_MS);
        await this.#call(client, limit, key, -1, holder);
      }
      await sleep(-Math.log(1 - random()) * interval * 1_000);
    }
  }

  async #call(client: Target, limit: Limit, key: string, hits: number, holder = ''): Promise<Outcome> {
    const start = this.#nowMs;
    const reply = await client.decide(requestOf(limit, key, hits, holder));
    const end = this.#nowMs;
    const answer = answerOf(reply);
    this.#write({ limit: limit.name, key, start, end, hits, ...answer, ...(holder !== '' && { holder }) });
    return answer.outcome;
  }
}

function requestOf({ domain, entries }: Limit, key: string, hits: number, holder: string): Request {
  const filled = entries.map(
    ([name, value]) => [name, value.replace('{key}', key).replace('{holder}', holder)] as const,
  );
  const own = { entries: filled as [string, string][], hits_addend: Math.abs(hits), is_negative_hits: hits < 0 };
  return { domain, descriptors: [own] };
}

interface ShortStatus {
  readonly code: string;
  readonly current_limit?: object;
  readonly limit_remaining: number;
  readonly duration_until_reset?: number;
}

function answerOf(reply: Readonly<Record<string, unknown>>): Pick<Line, 'outcome' | 'remaining' | 'reset_ms'> {
  const [status] = (reply.statuses ?? []) as readonly ShortStatus[];
  if (status?.code !== 'OK' && status?.code !== 'OVER_LIMIT') return { outcome: 'unknown' };
  const reset = status.duration_until_reset;
  return {
    outcome: status.code === 'OK' ? 'passed' : 'refused',
    // Without a limit in the answer nothing was counted, or the server does not say.
    ...(status.current_limit && { remaining: status.limit_remaining }),
    ...(reset !== undefined && { reset_ms: reset * 1_000 }),
  };
}

/** Numbers from 0 to 1. @see https://github.com/bryc/code/blob/master/jshash/PRNGs.md#mulberry32 */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
