import { type Random, Zipf } from './random.ts';
import type { ScenarioName } from './scenario-names.ts';

/** A request of a model, with the fields of a proxy's log. */
interface SimulatedRequest {
  /** Milliseconds since the start of the scenario. */
  readonly atMs: number;
  /** User; undefined if no credentials were sent. */
  readonly user: string | undefined;
  readonly address: string;
  readonly path: string;
  /** Of the response; absent: 200. */
  readonly status?: number;
  /** Answer of a perfect limit. */
  readonly label: 'allow' | 'refuse';
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** An address in the private network 10.0.0.0/8. */
const address = (network: number, host: number): string => `10.${network}.${host >> 8}.${host & 255}`;

const visitor = (at: number, path: string, atMs: number): SimulatedRequest => ({
  atMs,
  user: `user-${at}`,
  address: address(0, at),
  path,
  label: 'allow',
});

/** The requests of one visit, at random intervals, until a random end. */
function* visit(random: Random, { at, atMs: startMs }: Start, how: Visit): Iterable<SimulatedRequest> {
  let atMs = startMs;
  do {
    yield visitor(at, `/items/${random.below(200)}`, atMs);
    atMs += random.exponential(how.everyMs);
  } while (random.uniform() > 1 / how.meanRequests && atMs < how.endMs);
}

/** A visitor, and the beginning of its visit. */
interface Start {
  readonly at: number;
  readonly atMs: number;
}

interface Visit {
  /** Mean time between two requests. */
  readonly everyMs: number;
  readonly meanRequests: number;
  readonly endMs: number;
}

function* visits(
  random: Random,
  { perSecond, users }: { readonly perSecond: number; readonly users: number },
  how: Visit,
): Iterable<SimulatedRequest> {
  const zipf = new Zipf(users);
  for (const atMs of random.steady(0, how.endMs, perSecond)) yield* visit(random, { at: zipf.draw(random), atMs }, how);
}

/** A sale opens, and everyone reloads the same page; some are bots. */
function* flashSale(random: Random): Iterable<SimulatedRequest> {
  const openMs = 10 * MINUTE_MS;
  const endMs = 30 * MINUTE_MS;
  yield* visits(random, { perSecond: 0.2, users: 2_000 }, { everyMs: 5 * SECOND_MS, meanRequests: 8, endMs });
  for (let at = 0; at < 1_500; at++) {
    let atMs = openMs + random.exponential(45 * SECOND_MS);
    do {
      yield visitor(2_000 + at, '/sale', atMs);
      atMs += random.exponential(2 * SECOND_MS);
    } while (random.uniform() > 1 / 20);
  }
  for (let bot = 0; bot < 10; bot++)
    for (let atMs = openMs - 10 * SECOND_MS; atMs < openMs + 5 * MINUTE_MS; atMs += 100)
      yield { ...visitor(4_000 + bot, '/sale', atMs + random.below(20)), user: `bot-${bot}`, label: 'refuse' };
}

/** One client walks through a catalogue, from several addresses. */
function* scraper(random: Random): Iterable<SimulatedRequest> {
  const endMs = HOUR_MS;
  yield* visits(random, { perSecond: 0.5, users: 1_000 }, { everyMs: 5 * SECOND_MS, meanRequests: 10, endMs });
  let item = 0;
  for (let atMs = 15 * MINUTE_MS; atMs < 45 * MINUTE_MS; atMs += 125, item++)
    yield {
      atMs: atMs + random.below(60),
      user: 'scraper',
      address: address(9, item % 4),
      path: `/items/${item}`,
      label: 'refuse',
    };
}

/** Clients that poll retry without a pause while a dependency is down. */
function* retryStorm(random: Random): Iterable<SimulatedRequest> {
  for (let client = 0; client < 200; client++) {
    const offsetMs = random.below(10 * SECOND_MS);
    for (let atMs = offsetMs; atMs < 20 * MINUTE_MS; atMs += 10 * SECOND_MS) {
      const isDown = atMs >= 8 * MINUTE_MS && atMs < 10 * MINUTE_MS;
      for (let retry = 0; retry < (isDown ? 6 : 1); retry++)
        yield {
          ...visitor(client, '/status', atMs + retry * 200 + random.below(40)),
          label: retry === 0 ? 'allow' : 'refuse',
        };
    }
  }
}

/** An office behind one address beside users with their own. */
function* nat(random: Random): Iterable<SimulatedRequest> {
  const how = { everyMs: 6 * SECOND_MS, meanRequests: 6, endMs: HOUR_MS };
  for (const atMs of random.steady(0, how.endMs, 0.5)) yield* visit(random, { at: random.below(300), atMs }, how);
  for (const atMs of random.steady(0, how.endMs, 0.5))
    for (const one of visit(random, { at: 300 + random.below(300), atMs }, how)) yield { ...one, address: '192.0.2.1' };
}

/** Jobs of many clients start at the same second. */
function* cron(random: Random): Iterable<SimulatedRequest> {
  for (let client = 0; client < 120; client++) {
    for (const atMs of random.steady(0, HOUR_MS, 1 / 20)) yield visitor(client, '/export', atMs);
    for (let startMs = 0; startMs < HOUR_MS; startMs += 5 * MINUTE_MS) {
      const firstMs = startMs + random.below(2 * SECOND_MS);
      for (let call = 0; call < 40; call++) yield visitor(client, '/export', firstMs + call * 50);
    }
  }
}

/** A day of a service: quiet at night, busy in the afternoon. */
function* diurnal(random: Random): Iterable<SimulatedRequest> {
  const zipf = new Zipf(5_000);
  const endMs = 24 * HOUR_MS;
  const perSecond = (atMs: number): number =>
    0.21 + 0.19 * Math.cos((2 * Math.PI * (atMs - 15 * HOUR_MS)) / (24 * HOUR_MS));
  for (const atMs of random.arrivals(0, endMs, perSecond, 0.4))
    yield* visit(random, { at: zipf.draw(random), atMs }, { everyMs: 4 * SECOND_MS, meanRequests: 6, endMs });
}

/** A botnet tries stolen passwords, slowly from each address. */
function* credentialStuffing(random: Random): Iterable<SimulatedRequest> {
  for (const atMs of random.steady(0, HOUR_MS, 0.5)) {
    const at = random.below(2_000);
    const tries = random.uniform() < 0.1 ? 2 + random.below(2) : 1;
    for (let one = 1; one <= tries; one++)
      yield { ...visitor(at, '/login', atMs + (one - 1) * 5 * SECOND_MS), status: one < tries ? 401 : 200 };
  }
  let account = 0;
  for (let bot = 0; bot < 400; bot++)
    for (const atMs of random.steady(20 * MINUTE_MS, 40 * MINUTE_MS, 1 / 15))
      yield {
        ...{ atMs, user: `stolen-${account++}`, address: address(66, bot) },
        ...{ path: '/login', status: 401, label: 'refuse' },
      };
}

/** The requests of each model, which docs/replay.md describes with all parameters. */
export const scenarios: Readonly<Record<ScenarioName, (random: Random) => Iterable<SimulatedRequest>>> = {
  'flash-sale': flashSale,
  scraper,
  'retry-storm': retryStorm,
  nat,
  cron,
  diurnal,
  'credential-stuffing': credentialStuffing,
};
