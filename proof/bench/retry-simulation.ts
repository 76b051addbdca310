import type { WeirFetch } from '../../client/src/fetch.ts';
import { openFetch } from '../../client/src/outgoing/fetcher.ts';
import type { FetchOptions, Surroundings } from '../../client/src/outgoing/options.ts';
import { Random } from '../../src/parts/simulate/random.ts';
import { scenarios } from '../../src/parts/simulate/scenarios.ts';

const SEED = 1;
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/** The model's outage of its dependency, in which the server stalls. */
const DOWN_FROM_MS = 8 * MINUTE_MS;
const DOWN_UNTIL_MS = 10 * MINUTE_MS;
const END_MS = 20 * MINUTE_MS;

/** Twice the load of the model. */
const CAPACITY_PER_SECOND = 40;
/** Maximum queue of a server with limits, and of one without. */
const SHORT_QUEUE_MS = 500;
const LONG_QUEUE_MS = 5_000;
/** Time that a client waits for an answer. */
const TIMEOUT_MS = 1_000;

/** The model's retries: five, 200 ms apart. */
const RETRIES = 5;
const RETRY_AFTER_MS = 200;

/** How the clients of a simulation behave. */
export interface Manners {
  /** Delay of retries; undefined to repeat a failed request immediately, as in the model. */
  readonly fetch?: FetchOptions;
  /** How long a client uses a response before it sends another request. */
  readonly cacheMs?: number;
  /** The server has a short queue, and refuses requests beyond it with 429 and `Retry-After: 1`. */
  readonly isLimited?: boolean;
}

export interface StormResult {
  readonly polls: number;
  /** The number of requests that the server received. */
  readonly requests: number;
  /** The number of requests in the busiest second. */
  readonly peakPerSecond: number;
  /** Polls without a response while the server was down. */
  readonly failedWhileDown: number;
  /** Polls without a response afterwards. */
  readonly failedAfter: number;
  /** Time from the end of the outage until the last failed poll; 0 if none failed. */
  readonly recoveryMs: number;
}

/** Runs the clients of the model `retry-storm` against a server of limited capacity, on a simulated clock. */
export async function simulateStorm({ fetch, cacheMs = 0, isLimited = false }: Manners): Promise<StormResult> {
  const random = new Random(SEED);
  const polls = [...scenarios['retry-storm'](random)].filter(({ label }) => label === 'allow');
  const clock = new SimulatedClock();
  const server = new SimulatedServer(clock, isLimited);
  const senders = new Map<string, WeirFetch>();
  const createSender = (user: string): WeirFetch => {
    const sender = senders.get(user) ?? openFetch(fetch ?? {}, createSurroundings(clock, server, random));
    senders.set(user, sender);
    return sender;
  };
  const send = (user: string) =>
    fetch ? createSender(user)('http://api.example/status') : repeatAtOnce(() => server.answer(), clock);
  const cachedUntilMs = new Map<string, number>();
  let [failedWhileDown, failedAfter, lastFailureMs] = [0, 0, 0];
  for (const { atMs, user = '' } of polls)
    clock.at(atMs, async () => {
      if (clock.nowMs < (cachedUntilMs.get(user) ?? 0)) return;
      const isOk = await send(user).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isOk) cachedUntilMs.set(user, clock.nowMs + cacheMs);
      else if (clock.nowMs < DOWN_UNTIL_MS + TIMEOUT_MS) failedWhileDown++;
      else failedAfter++;
      if (!isOk) lastFailureMs = clock.nowMs;
    });
  await clock.run();
  const recoveryMs = failedAfter === 0 ? 0 : lastFailureMs - DOWN_UNTIL_MS;
  const { requests, peakPerSecond } = server;
  return { polls: polls.length, requests, peakPerSecond, failedWhileDown, failedAfter, recoveryMs };
}

/** Whether polls failed until the end. */
export const neverRecovers = ({ recoveryMs }: StormResult): boolean =>
  recoveryMs > END_MS - DOWN_UNTIL_MS - 30 * SECOND_MS;

async function repeatAtOnce(attempt: () => Promise<Response>, clock: SimulatedClock): Promise<Response> {
  for (let retry = 0; ; retry++) {
    const response = await attempt().catch(() => undefined);
    if (response?.ok) return response;
    if (retry === RETRIES) return response ?? new Response(null, { status: 504 });
    await clock.sleep(RETRY_AFTER_MS);
  }
}

const createSurroundings = (clock: SimulatedClock, server: SimulatedServer, random: Random): Surroundings => ({
  fetch: () => server.answer(),
  sleep: (ms) => clock.sleep(ms),
  nowMs: () => clock.nowMs,
  dateMs: () => clock.nowMs,
  random: () => random.uniform(),
});

/** A clock that advances when no work is left. */
class SimulatedClock {
  nowMs = 0;
  /** Events by time, each list in its order of addition. */
  readonly #events = new Map<number, (() => unknown)[]>();
  readonly #times: number[] = [];

  at(atMs: number, run: () => unknown): void {
    const time = Math.max(this.nowMs, Math.ceil(atMs));
    const events = this.#events.get(time);
    if (events) return void events.push(run);
    this.#events.set(time, [run]);
    let place = this.#times.length; // sorted with the latest time first
    while (place > 0 && (this.#times[place - 1] ?? 0) < time) place--;
    this.#times.splice(place, 0, time);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.at(this.nowMs + ms, resolve));
  }

  async run(): Promise<void> {
    for (let time = this.#times.at(-1); time !== undefined; time = this.#times.at(-1)) {
      this.nowMs = time;
      for (const run of this.#events.get(time) ?? []) {
        run();
        await new Promise(setImmediate);
      }
      this.#times.splice(this.#times.indexOf(time), 1);
      this.#events.delete(time);
    }
  }
}

/** Answers one request after the other, including those whose clients no longer wait. */
class SimulatedServer {
  requests = 0;
  peakPerSecond = 0;
  readonly #clock: SimulatedClock;
  readonly #isLimited: boolean;
  #busyUntilMs = 0;
  #second = 0;
  #inSecond = 0;

  constructor(clock: SimulatedClock, isLimited: boolean) {
    this.#clock = clock;
    this.#isLimited = isLimited;
  }

  /** @throws Error  the client's timeout is over */
  async answer(): Promise<Response> {
    const { nowMs } = this.#clock;
    this.#count(nowMs);
    const isStalled = nowMs >= DOWN_FROM_MS && nowMs < DOWN_UNTIL_MS;
    const worksFromMs = Math.max(this.#busyUntilMs, isStalled ? DOWN_UNTIL_MS : nowMs);
    const queueMs = worksFromMs - (isStalled ? DOWN_UNTIL_MS : nowMs);
    if (this.#isLimited && queueMs > SHORT_QUEUE_MS)
      return new Response(null, { status: 429, headers: { 'retry-after': '1' } });
    if (queueMs > LONG_QUEUE_MS) return new Response(null, { status: 503 });
    this.#busyUntilMs = worksFromMs + SECOND_MS / CAPACITY_PER_SECOND;
    const takesMs = this.#busyUntilMs - nowMs;
    await this.#clock.sleep(Math.min(takesMs, TIMEOUT_MS));
    if (takesMs > TIMEOUT_MS) throw new Error('no answer in time', { cause: 'timeout' });
    return new Response(null, { status: 200 });
  }

  #count(nowMs: number): void {
    this.requests++;
    const second = Math.floor(nowMs / SECOND_MS);
    this.#inSecond = second === this.#second ? this.#inSecond + 1 : 1;
    this.#second = second;
    this.peakPerSecond = Math.max(this.peakPerSecond, this.#inSecond);
  }
}
