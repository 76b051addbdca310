import { Random } from '../../src/parts/simulate/random.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Seeded traffic of several sources, each with a counter of its own. */
export interface Model {
  readonly name: string;
  /** The parameters in one sentence. */
  readonly about: string;
  /** The times of requests in whole milliseconds from 0, ascending, one list per source. */
  sources(seed: number): readonly (readonly number[])[];
}

/** A request a millisecond apart at least, so that each decision has a time of its own. */
const inOrder = (times: Iterable<number>): readonly number[] =>
  Array.from(times, Math.floor).sort((one, other) => one - other);

const each = (count: number, source: (at: number) => Iterable<number>): readonly (readonly number[])[] =>
  Array.from({ length: count }, (_, at) => inOrder(source(at)));

const even: Model = {
  name: 'even',
  about:
    '200 sources for 30 minutes, at constant mean rates from 3 to 95 a minute, mostly low ones, at random moments (Poisson)',
  sources(seed) {
    const random = new Random(seed);
    return each(200, (at) => random.steady(0, 30 * MINUTE_MS, (3 + 92 * (at / 199) ** 3) / 60));
  },
};

const bursty: Model = {
  name: 'bursty',
  about: '200 sources for 60 minutes: bursts of 10 to 130 requests, 20 a second, 150 s apart on average',
  sources(seed) {
    const random = new Random(seed);
    return each(200, function* () {
      for (
        let atMs = random.exponential(150 * SECOND_MS);
        atMs < HOUR_MS;
        atMs += random.exponential(150 * SECOND_MS)
      ) {
        const requests = 10 + random.below(121);
        for (let request = 0; request < requests; request++, atMs += 50) yield atMs;
      }
    });
  },
};

const cron: Model = {
  name: 'cron-like',
  about:
    '200 sources for 60 minutes: a job of 5 to 68 calls, 50 ms apart, in the first two seconds of a minute, then each time 60 s later, and up to 50 ms more',
  sources(seed) {
    const random = new Random(seed);
    return each(200, function* () {
      const calls = 5 + random.below(64);
      for (let atMs = random.below(2 * SECOND_MS); atMs < HOUR_MS; atMs += MINUTE_MS + random.below(51))
        for (let call = 0; call < calls; call++) yield atMs + call * 50;
    });
  },
};

const diurnal: Model = {
  name: 'diurnal',
  about: '20 sources for 24 hours: a sine from 2 a minute at night to 40 to 130 a minute at 15:00',
  sources(seed) {
    const random = new Random(seed);
    return each(20, (at) => {
      const peak = (40 + (90 * at) / 19) / 60;
      const low = 2 / 60;
      const perSecond = (atMs: number): number =>
        low + ((peak - low) * (1 + Math.cos((2 * Math.PI * (atMs - 15 * HOUR_MS)) / DAY_MS))) / 2;
      return random.arrivals(0, DAY_MS, perSecond, peak);
    });
  },
};

const abuser: Model = {
  name: 'one abuser',
  about: '199 sources for 30 minutes at 10 to 60 a minute (Poisson), and one that sends 1,200 a minute',
  sources(seed) {
    const random = new Random(seed);
    return each(200, (at) => random.steady(0, 30 * MINUTE_MS, at === 199 ? 20 : (10 + (50 * at) / 198) / 60));
  },
};

export const models: readonly Model[] = [even, bursty, cron, diurnal, abuser];
