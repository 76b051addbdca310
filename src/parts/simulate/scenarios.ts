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

interface Scenario {
  /** One sentence, for the help and the documentation. */
  readonly summary: string;
  /** A description of the model with all parameters, for the documentation. */
  readonly model: readonly string[];
  requests(random: Random): Iterable<SimulatedRequest>;
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

const flashSale: Scenario = {
  summary: 'a sale opens, and everyone reloads the same page; some are bots',
  model: [
    '30 minutes. Visits begin at 0.2 a second, by 2,000 users (Zipf: the second visits half as often as the first), with a',
    'request every 5 s on average and 8 requests on average. At minute 10 the sale opens: 1,500 further users arrive,',
    'after an exponential delay of 45 s on average, and reload `/sale` every 2 s on average, 20 times on average. Ten',
    'bots reload it every 100 ms from 10 s before the opening until 5 minutes after it: these should be refused.',
  ],
  *requests(random) {
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
  },
};

const scraper: Scenario = {
  summary: 'one client walks through a catalogue, from several addresses',
  model: [
    '60 minutes. Visits begin at 0.5 a second, by 1,000 users (Zipf), with a request every 5 s on average and 10 requests',
    'on average. From minute 15 to 45 a scraper fetches `/items/1`, `/items/2` and so on, 8 a second, in turn from four',
    'addresses with one account: it should be refused.',
  ],
  *requests(random) {
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
  },
};

const retryStorm: Scenario = {
  summary: 'clients that poll retry without a pause while a dependency is down',
  model: [
    '20 minutes. 200 clients poll `/status` every 10 s, each at its own second. From minute 8 to 10 every call fails, and is',
    'repeated five times, 200 ms apart. The retries should be refused, the first calls should pass. Retries do not',
    'depend on what the limit answers: the model shows the load, not the end of the storm.',
  ],
  *requests(random) {
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
  },
};

const nat: Scenario = {
  summary: 'an office behind one address beside users with their own',
  model: [
    '60 minutes. 300 people behind one address and 300 with an address each, all with an account, make visits at 0.5 a',
    'second for each group: a request every 6 s on average, 6 requests on average. All of it should pass.',
  ],
  *requests(random) {
    const how = { everyMs: 6 * SECOND_MS, meanRequests: 6, endMs: HOUR_MS };
    for (const atMs of random.steady(0, how.endMs, 0.5)) yield* visit(random, { at: random.below(300), atMs }, how);
    for (const atMs of random.steady(0, how.endMs, 0.5))
      for (const one of visit(random, { at: 300 + random.below(300), atMs }, how))
        yield { ...one, address: '192.0.2.1' };
  },
};

const cron: Scenario = {
  summary: 'jobs of many clients start at the same second',
  model: [
    '60 minutes. 120 clients start a job at each fifth minute, within 2 s: 40 calls of `/export`, one every 50 ms. Between',
    'jobs, each calls `/export` every 20 s on average. All of it is legitimate, and should pass.',
  ],
  *requests(random) {
    for (let client = 0; client < 120; client++) {
      for (const atMs of random.steady(0, HOUR_MS, 1 / 20)) yield visitor(client, '/export', atMs);
      for (let startMs = 0; startMs < HOUR_MS; startMs += 5 * MINUTE_MS) {
        const firstMs = startMs + random.below(2 * SECOND_MS);
        for (let call = 0; call < 40; call++) yield visitor(client, '/export', firstMs + call * 50);
      }
    }
  },
};

const diurnal: Scenario = {
  summary: 'a day of a service: quiet at night, busy in the afternoon',
  model: [
    '24 hours. Visits begin at 0.02 to 0.4 a second, as a sine whose peak is at 15:00, by 5,000 users (Zipf): a request every',
    '4 s on average, 6 requests on average. All of it should pass.',
  ],
  *requests(random) {
    const zipf = new Zipf(5_000);
    const endMs = 24 * HOUR_MS;
    const perSecond = (atMs: number): number =>
      0.21 + 0.19 * Math.cos((2 * Math.PI * (atMs - 15 * HOUR_MS)) / (24 * HOUR_MS));
    for (const atMs of random.arrivals(0, endMs, perSecond, 0.4))
      yield* visit(random, { at: zipf.draw(random), atMs }, { everyMs: 4 * SECOND_MS, meanRequests: 6, endMs });
  },
};

const credentialStuffing: Scenario = {
  summary: 'a botnet tries stolen passwords, slowly from each address',
  model: [
    '60 minutes. Users log in at 0.5 a second from 2,000 addresses; one login in ten is tried twice or three times, 5 s',
    'apart, and only its last attempt succeeds. From minute 20 to 40, 400 addresses try one account each 15 s on average,',
    'never the same twice: these fail with 401, and ought to be refused.',
  ],
  *requests(random) {
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
  },
};

export const scenarios: Readonly<Record<ScenarioName, Scenario>> = {
  'flash-sale': flashSale,
  scraper,
  'retry-storm': retryStorm,
  nat,
  cron,
  diurnal,
  'credential-stuffing': credentialStuffing,
};
