import type { Random } from '../../src/parts/simulate/random.ts';

/** A request of a trace. */
export interface Call {
  /** Milliseconds since the start of the trace, a Monday at 0:00 UTC. */
  readonly atMs: number;
  /** In the form of `weir ask`: `user=ann,request_id=r1`; several are separated by blanks. */
  readonly descriptors: string;
  /** Default: 1; negative hits are given back. */
  readonly hits?: number;
  /** The node that decides it, if each node counts separately. Default: 0. */
  readonly node?: number;
}

/** A call with its answer. */
export interface Answered extends Call {
  readonly passed: boolean;
  /** Milliseconds until the same request could pass; undefined if it passed, or never can. */
  readonly retryAfterMs: number | undefined;
}

/** A published limit, and what Weir's rule admits of a trace. */
export interface Limiter {
  readonly name: string;
  /** The rule file in config/famous, without `.yaml`. */
  readonly file: string;
  readonly about: string;
  readonly trace: string;
  calls(random: Random): readonly Call[];
  /** The outcome as a sentence with numbers. */
  outcome(answers: readonly Answered[]): string;
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

const passedOf = (answers: readonly Answered[]): number => answers.filter(({ passed }) => passed).length;
const firstRefusal = (answers: readonly Answered[]): Answered => {
  const found = answers.find(({ passed }) => !passed);
  if (!found) throw new Error('expected a refusal in the trace');
  return found;
};
const within = (answers: readonly Answered[], fromMs: number, toMs: number): readonly Answered[] =>
  answers.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
const named = (answers: readonly Answered[], start: string): readonly Answered[] =>
  answers.filter(({ descriptors }) => descriptors.startsWith(start));

/** The largest number of requests admitted within any window. */
function mostWithin(answers: readonly Answered[], windowMs: number): number {
  const times = answers.filter(({ passed }) => passed).map(({ atMs }) => atMs);
  let [first, most] = [0, 0];
  for (const [at, timeMs] of times.entries()) {
    while ((times[first] ?? timeMs) <= timeMs - windowMs) first++;
    most = Math.max(most, at - first + 1);
  }
  return most;
}

/** `1:40:05` */
const clockTime = (ms: number): string => {
  const seconds = Math.floor(ms / SECOND_MS);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${Math.floor(seconds / 3_600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
};

/** Calls at regular times, each up to a tenth of the interval late. */
function regular(random: Random, count: number, everyMs: number, descriptors: string, startMs = 0): Call[] {
  return Array.from({ length: count }, (_, at) => ({
    atMs: startMs + at * everyMs + random.below(Math.max(Math.floor(everyMs / 10), 1)),
    descriptors,
  }));
}

const atOnce = (count: number, atMs: number, descriptors: (at: number) => string): Call[] =>
  Array.from({ length: count }, (_, at) => ({ atMs, descriptors: descriptors(at) }));

export const limiters: readonly Limiter[] = [
  {
    name: 'Twitter: 300 posts in 3 hours',
    file: 'twitter',
    about:
      'The [API of Twitter](https://docs.x.com/x-api/fundamentals/rate-limits) limited posts to 300 in 3 hours for each user. Its windows are fixed: answers name the moment at which the window starts again.',
    trace: 'One user posts every 20 seconds for 6 hours.',
    calls: (random) => regular(random, 1_080, 20 * SECOND_MS, 'user=ann'),
    outcome(answers) {
      const { atMs, retryAfterMs = 0 } = firstRefusal(answers);
      return `Of ${answers.length} posts ${passedOf(answers)} pass, 300 in each window. The first refusal is at ${clockTime(atMs)}, and asks to wait for ${clockTime(retryAfterMs)}.`;
    },
  },
  {
    name: 'Google Docs: 300 reads a minute and user',
    file: 'google-docs',
    about:
      'The [Docs API](https://developers.google.com/workspace/docs/api/limits) has a limit for each user and a larger one for the project. Both are checked in one step, and a refused read spends neither.',
    trace: 'Twelve users of a project each read 350 times within a minute.',
    calls(random) {
      const calls = Array.from({ length: 12 * 350 }, (_, at) => ({
        atMs: random.below(MINUTE_MS),
        descriptors: `project=p project=p,user=u${at % 12}`,
      }));
      return calls.sort((one, other) => one.atMs - other.atMs);
    },
    outcome(answers) {
      const users = Array.from({ length: 12 }, (_, at) =>
        passedOf(answers.filter(({ descriptors }) => descriptors.endsWith(`=u${at}`))),
      );
      return `Of ${answers.length} reads ${passedOf(answers)} pass, the project's limit; of one user between ${Math.min(...users)} and ${Math.max(...users)}.`;
    },
  },
  {
    name: 'Amazon: a token bucket',
    file: 'amazon',
    about:
      '[API Gateway](https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-request-throttling.html) is the textbook token bucket: a rate for the average, and a burst for what may come at once.',
    trace: '6,000 requests at the same moment, and 2,000 more 100 ms later.',
    calls: () => [...atOnce(6_000, 0, () => 'account=a'), ...atOnce(2_000, 100, () => 'account=a')],
    outcome: (answers) =>
      `${passedOf(within(answers, 0, 1))} pass at once, the burst; 100 ms later ${passedOf(within(answers, 100, 101))}, which is a tenth of a second's tokens.`,
  },
  {
    name: 'Stripe: four limiters',
    file: 'stripe',
    about:
      '[Stripe](https://stripe.com/blog/rate-limiters) runs a token bucket for requests, a limit on concurrent requests, a load shedder that keeps 20 % of the fleet for critical methods, and one that drops test traffic first when workers are busy. The first is a rate; the other three are requests in flight, at different thresholds.',
    trace:
      'A user sends 300 requests at once, holding 30. Then the fleet takes 45 live and 30 test requests that are not critical, 40 more of these, and 25 critical ones; none ends.',
    calls() {
      const shed = (count: number, of: string, prefix: string, atMs: number): Call[] =>
        atOnce(count, atMs, (at) =>
          of
            .split(' ')
            .map((one) => `fleet=${one},request_id=${prefix}${at}`)
            .join(' '),
        );
      return [
        ...atOnce(300, 0, () => 'user=ann'),
        ...atOnce(30, 0, (at) => `user_in_flight=ann,request_id=r${at}`),
        ...shed(45, 'all not_critical', 'a', 1_000),
        ...shed(30, 'all not_critical test_mode', 't', 2_000),
        ...shed(40, 'all not_critical', 'b', 3_000),
        ...shed(25, 'all', 'c', 4_000),
      ];
    },
    outcome(answers) {
      const at = (ms: number): number => passedOf(within(answers, ms, ms + 1));
      const rate = passedOf(named(answers, 'user='));
      const held = passedOf(named(answers, 'user_in_flight'));
      return `${rate} of 300 requests pass the rate, ${held} of 30 the limit on concurrency. The fleet admits ${at(1_000)} of 45 live and ${at(2_000)} of 30 test requests, then ${at(3_000)} of 40 that are not critical, and ${at(4_000)} of 25 critical ones, of which 20 places were kept free.`;
    },
  },
  {
    name: 'Shopify: points for each query',
    file: 'shopify',
    about:
      '[Shopify](https://shopify.dev/docs/api/usage/limits) limits its GraphQL API by cost. A query takes its requested cost from the bucket; the difference to the actual cost comes back with the response (`is_negative_hits`).',
    trace: 'An app sends a query of 142 points every 500 ms, each of which turns out to have cost 42 to 92.',
    calls(random) {
      return regular(random, 120, 500, 'app=a').flatMap(({ atMs, descriptors }) => [
        { atMs, descriptors, hits: 142 },
        { atMs: atMs + 40, descriptors, hits: -(50 + random.below(51)) },
      ]);
    },
    outcome(answers) {
      const queries = answers.filter(({ hits = 1 }) => hits > 0);
      const { atMs } = firstRefusal(queries);
      return `Of ${queries.length} queries in a minute ${passedOf(queries)} pass; the first refusal is at ${clockTime(atMs)}. Without the points that come back, 28 would pass.`;
    },
  },
  {
    name: 'GitHub: points, and processor time',
    file: 'github',
    about:
      '[GitHub](https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api) counts points for requests, and the processor time of responses, known only afterwards. A peek asks whether there is time left (hits of 0), and a report charges it (`charge: always`).',
    trace: 'A script sends a read every 200 ms; each response takes 200 to 600 ms of processor time.',
    calls(random) {
      return regular(random, 1_200, 200, '').flatMap(({ atMs }) => [
        { atMs, descriptors: 'points=ann', hits: 1 },
        { atMs, descriptors: 'processor_ms=ann', hits: 0 },
        { atMs: atMs + 100, descriptors: 'processor_ms=ann', hits: 200 + random.below(401) },
      ]);
    },
    outcome(answers) {
      const peeks = answers.filter(({ hits }) => hits === 0);
      const points = named(answers, 'points');
      const { atMs, retryAfterMs = 0 } = firstRefusal(peeks);
      return `All ${passedOf(points)} reads have their points, but the processor time is used up at ${clockTime(atMs)}: the first refusal asks to wait for ${retryAfterMs} ms.`;
    },
  },
  {
    name: 'Figma: parts of a window',
    file: 'figma',
    about:
      '[Figma](https://www.figma.com/blog/an-alternative-approach-to-rate-limiting/) keeps counts for parts of the window instead of a time for each request: an hour takes 60 numbers instead of 500 times.',
    trace: 'A spammer sends a request every 5 seconds for 4 hours.',
    calls: (random) => regular(random, 2_880, 5 * SECOND_MS, 'user=ann'),
    outcome: (answers) =>
      `Of ${answers.length} requests ${passedOf(answers)} pass, and at most ${mostWithin(answers, HOUR_MS)} in any hour: never more than the limit of 500.`,
  },
  {
    name: 'Cloudflare: the sliding window counter',
    file: 'cloudflare',
    about:
      "[Cloudflare's example](https://blog.cloudflare.com/counting-things-a-lot-of-different-things/): 42 requests in the last minute and 18 in this one, 15 seconds in, are 42 × 45/60 + 18 = 49.5 in the sliding minute. With what it admits beyond an exact count see [accuracy](results/accuracy.md).",
    trace: 'Those 60 requests, and two more.',
    calls(random) {
      const first = Array.from({ length: 42 }, () => random.below(MINUTE_MS)).sort((one, other) => one - other);
      const second = Array.from({ length: 18 }, () => MINUTE_MS + random.below(15 * SECOND_MS)).sort(
        (one, other) => one - other,
      );
      const times = [...first, ...second, MINUTE_MS + 15 * SECOND_MS, MINUTE_MS + 15 * SECOND_MS];
      return times.map((atMs) => ({ atMs, descriptors: 'remote_address=192.0.2.1' }));
    },
    outcome(answers) {
      const last = answers.at(-1);
      return `${passedOf(answers)} of ${answers.length} pass: at 49 whole requests one more fits, and the next is refused for ${last?.retryAfterMs} ms.`;
    },
  },
  {
    name: 'Kong: local, cluster, redis',
    file: 'kong',
    about:
      "The [policies of Kong's plugin](https://docs.konghq.com/hub/kong-inc/rate-limiting/) are places to count: `local` in each node, `cluster` in a database, `redis` in Redis. With Weir they are counters in memory or in Redis; with [leases](reliability.md#leases) nodes count locally within a shared limit.",
    trace:
      'A consumer sends 30 requests in a minute to three nodes in turn, first to nodes that each count, then to nodes that share.',
    calls(random) {
      const calls = regular(random, 30, 2 * SECOND_MS, '');
      return [
        ...calls.map(({ atMs }, at) => ({ atMs, descriptors: 'consumer=local', node: 1 + (at % 3) })),
        ...calls.map(({ atMs }) => ({ atMs: atMs + MINUTE_MS, descriptors: 'consumer=redis' })),
      ];
    },
    outcome: (answers) =>
      `Counted in each node, ${passedOf(named(answers, 'consumer=local'))} of 30 pass: the limit times the nodes. Counted once, ${passedOf(named(answers, 'consumer=redis'))} of 30 pass.`,
  },
  {
    name: 'Posts, friends and likes',
    file: 'social-network',
    about:
      'Three limits for each user, of which one is not a rate: a user has up to 150 friends, however long it took to find them. [`allocation`](algorithms.md#allocation) is a count without a window: it goes down when someone is unfriended (`is_negative_hits`), and refused attempts do not count.',
    trace: 'A user adds a friend every minute 200 times, tries once more a year later, unfriends 30, and then adds 40.',
    calls(random) {
      const friends = 'friends=ann';
      const yearMs = 365 * DAY_MS;
      const unfriended = regular(random, 30, MINUTE_MS, friends, yearMs).map((call) => ({ ...call, hits: -1 }));
      return [
        ...regular(random, 200, MINUTE_MS, friends),
        { atMs: yearMs - HOUR_MS, descriptors: friends },
        ...unfriended,
        ...regular(random, 40, MINUTE_MS, friends, yearMs + DAY_MS),
      ];
    },
    outcome: (answers) =>
      `${passedOf(within(answers, 0, DAY_MS))} of 200 become friends, ${passedOf(within(answers, DAY_MS, 365 * DAY_MS))} of 1 a year later, and after 30 have left ${passedOf(within(answers, 366 * DAY_MS, 367 * DAY_MS))} of 40.`,
  },
  {
    name: 'Marketing: 5 messages a day',
    file: 'marketing',
    about: 'A day is the day of the customer, which the calendar of a time zone defines.',
    trace: 'A campaign sends a message every two hours for three days.',
    calls: (random) => regular(random, 36, 2 * HOUR_MS, 'customer=ann'),
    outcome(answers) {
      const nights = answers.filter(({ passed }, at) => passed && answers[at - 1]?.passed === false);
      return `Of ${answers.length} messages ${passedOf(answers)} are sent, and a new day begins at ${nights.map(({ atMs }) => clockTime(atMs % DAY_MS)).join(', ')} UTC: midnight in New York is 5:00 in January.`;
    },
  },
  {
    name: '2 posts a second',
    file: 'posts',
    about: 'Small limits for short windows are cheap as an exact log: a state has at most two times.',
    trace: 'A script posts every 300 ms for a minute.',
    calls: (random) => regular(random, 200, 300, 'user=ann'),
    outcome: (answers) =>
      `Of ${answers.length} posts ${passedOf(answers)} pass, at most ${mostWithin(answers, SECOND_MS)} in any second.`,
  },
  {
    name: '10 accounts a day and address',
    file: 'accounts',
    about:
      'New accounts are few and costly, so the limit is exact, too. Whoever owns an IPv6 network has all its addresses: Envoy sends the network (`masked_remote_address`).',
    trace: 'A bot registers from one network every 30 minutes for two days.',
    calls: (random) => regular(random, 96, 30 * MINUTE_MS, 'masked_remote_address=2001:db8::/64'),
    outcome: (answers) =>
      `Of ${answers.length} registrations ${passedOf(answers)} pass, at most ${mostWithin(answers, DAY_MS)} in any 24 hours.`,
  },
  {
    name: '5 rewards a week and device',
    file: 'rewards',
    about: 'Weeks of the calendar begin on Mondays; without `alignment` they would begin on Thursdays, as in 1970.',
    trace: 'A device claims a reward every 20 hours for four weeks.',
    calls: (random) => regular(random, 34, 20 * HOUR_MS, 'device=d1'),
    outcome(answers) {
      const weeks = [0, 1, 2, 3].map((week) => passedOf(within(answers, week * 7 * DAY_MS, (week + 1) * 7 * DAY_MS)));
      return `Of ${answers.length} claims ${passedOf(answers)} pass: ${weeks.join(', ')} in the four weeks.`;
    },
  },
];
