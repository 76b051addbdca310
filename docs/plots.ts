import type { State } from '../src/engine/algorithms/limit.ts';
import type { Limit } from '../src/engine/holds/limits.ts';
import { algorithmFor } from '../src/engine/holds/limits.ts';

/** A drawing: a limit, the hits that it decides, and the quantity that decides. */
interface Picture {
  readonly title: string;
  readonly limit: Limit;
  readonly schedule: Schedule;
  /** The quantity that decides, in a state that was brought up to `nowMs`. */
  readonly quantity: { readonly name: string; of(state: State, nowMs: number): number };
  /** Dashed horizontal lines, such as the limit. */
  readonly dashed: readonly { readonly at: number; readonly label: string }[];
  /** The side of the labels of dashed lines: the end where the quantity leaves room. */
  readonly labels: 'start' | 'end';
  /** The interval of light vertical lines, where windows or their parts begin. */
  readonly boundaryMs: number | undefined;
}

/** The times of hits, one at a time, in ms since the drawing's left edge. */
interface Schedule {
  readonly hitsAtMs: readonly number[];
  readonly endMs: number;
  /** The quantity changes its slope only at multiples of this. */
  readonly tickMs: number;
  readonly label: { readonly everyMs: number; of(atMs: number): string };
}

/** The outcome of a hit. */
interface Arrival {
  readonly atMs: number;
  readonly passed: boolean;
  /** When it passes: later than `atMs` if it is held. */
  readonly turnMs: number;
}

interface Point {
  readonly atMs: number;
  readonly value: number;
}

/** The left edge of every drawing, at the start of a minute. */
const START_MS = 1_700_000_040_000;
const MINUTE_MS = 60_000;

/** A burst at the end of a minute, another at the start of the next, then one hit every ten seconds. */
const aroundABoundary: Schedule = {
  hitsAtMs: [43, 46, 49, 52, 55, 58, 62, 65, 68, 71, 74, 77, 90, 100, 110, 120, 130, 140, 150, 160, 170].map(
    (seconds) => seconds * 1_000,
  ),
  endMs: 3 * MINUTE_MS,
  tickMs: 1_000,
  label: {
    everyMs: 30_000,
    of: (atMs) => `${Math.floor(atMs / MINUTE_MS)}:${String((atMs % MINUTE_MS) / 1_000).padStart(2, '0')}`,
  },
};

/** Five at once, later two, two and one. */
const atOnce: Schedule = {
  hitsAtMs: [0, 0, 0, 0, 0, 500, 500, 550, 550, 580],
  endMs: 1_000,
  tickMs: 10,
  label: { everyMs: 100, of: (atMs) => (atMs === 0 ? '0 ms' : String(atMs)) },
};

const fiveAMinute = {
  name: '',
  counter: '',
  requestsPerUnit: 5,
  soft: 0,
  unit: 'MINUTE',
  unitMultiplier: 1,
  windowMs: MINUTE_MS,
} as const;
const onMinutes = { schedule: aroundABoundary, dashed: [{ at: 5, label: 'limit' }], labels: 'start' } as const;
const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

const pictures: Readonly<Record<string, Picture>> = {
  'fixed-window': {
    ...onMinutes,
    title: 'fixed_window, 5 a minute',
    limit: { ...fiveAMinute, algorithm: 'fixed_window', alignment: 'epoch' },
    quantity: { name: 'hits in this window, refused ones too', of: ([, count = 0]) => count },
    boundaryMs: MINUTE_MS,
  },
  'sliding-window-log': {
    ...onMinutes,
    title: 'sliding_window_log, 5 a minute',
    limit: { ...fiveAMinute, algorithm: 'sliding_window_log', countDenied: false },
    quantity: { name: 'hits in the last 60 s', of: (log) => sum(log.filter((_, place) => place % 2 === 1)) },
    boundaryMs: undefined,
  },
  'sliding-window-counter': {
    ...onMinutes,
    title: 'sliding_window_counter, 5 a minute',
    limit: { ...fiveAMinute, algorithm: 'sliding_window_counter', rounding: 'down' },
    quantity: {
      name: 'estimate for the last 60 s, before it is rounded down',
      of: ([startMs = 0, count = 0, previous = 0], nowMs) => count + previous * (1 - (nowMs - startMs) / MINUTE_MS),
    },
    boundaryMs: MINUTE_MS,
  },
  'sliding-window-buckets': {
    ...onMinutes,
    title: 'sliding_window_buckets, 5 a minute in 6 parts',
    limit: { ...fiveAMinute, algorithm: 'sliding_window_buckets', buckets: 6 },
    quantity: { name: 'hits in this part and the six before it', of: ([, ...counts]) => sum(counts) },
    boundaryMs: 10_000,
  },
  'token-bucket': {
    ...onMinutes,
    title: 'token_bucket, 5 a minute, burst 5',
    limit: { ...fiveAMinute, algorithm: 'token_bucket', burst: 5, refill: 'continuous', maxDelayMs: 0 },
    quantity: { name: 'tokens in the bucket', of: ([spent = 0]) => 5 - spent / MINUTE_MS },
    dashed: [
      { at: 5, label: 'full' },
      { at: 1, label: 'enough for a hit' },
    ],
    boundaryMs: undefined,
  },
  'leaky-bucket': {
    ...onMinutes,
    title: 'leaky_bucket, 5 a minute, burst 1',
    limit: { ...fiveAMinute, algorithm: 'leaky_bucket', burst: 1, maxDelayMs: 0 },
    quantity: { name: 'backlog', of: ([backlog = 0]) => backlog / MINUTE_MS },
    dashed: [{ at: 1, label: 'burst' }],
    boundaryMs: undefined,
  },
  'leaky-bucket-max-delay': {
    title: 'leaky_bucket, 10 a second, burst 1, max_delay: 300ms',
    limit: {
      ...{ ...fiveAMinute, requestsPerUnit: 10, unit: 'SECOND', windowMs: 1_000 },
      ...{ algorithm: 'leaky_bucket', burst: 1, maxDelayMs: 300 },
    },
    schedule: atOnce,
    quantity: { name: 'backlog', of: ([backlog = 0]) => backlog / 1_000 },
    dashed: [
      { at: 1, label: 'held beyond burst' },
      { at: 4, label: 'refused beyond max_delay' },
    ],
    labels: 'end',
    boundaryMs: undefined,
  },
};

/** Runs the real algorithm on the schedule. */
function replay({ limit, schedule, quantity }: Picture): { readonly arrivals: Arrival[]; readonly line: Point[] } {
  const { step, describe } = algorithmFor(limit);
  const arrivals: Arrival[] = [];
  const line: Point[] = [];
  let state: State | undefined;
  const note = (nowMs: number, atMs = nowMs) => {
    const peeked = step(limit, state, START_MS + nowMs, 0, false);
    line.push({ atMs, value: quantity.of(peeked.state, START_MS + nowMs) });
  };
  for (let atMs = 0; atMs < schedule.endMs; atMs += schedule.tickMs) {
    const hits = schedule.hitsAtMs.filter((hitAtMs) => hitAtMs === atMs);
    if (hits.length === 0 || atMs === 0) note(atMs);
    for (const _ of hits) {
      const { accepted, ...next } = step(limit, state, START_MS + atMs, 1, true);
      const outcome = { hits: 1, accepted, charged: true };
      const { delayMs } = describe(limit, next.report ?? next.state, START_MS + atMs, outcome);
      arrivals.push({ atMs, passed: accepted, turnMs: atMs + delayMs });
      state = next.state;
      note(atMs);
    }
    note(atMs + schedule.tickMs - 1, atMs + schedule.tickMs); // the value just before
  }
  return { arrivals, line };
}

/** The most hits that passed within one window's length, excluding its end. */
function mostWithin(windowMs: number, arrivals: readonly Arrival[]): number {
  const turnsMs = arrivals.filter(({ passed }) => passed).map(({ turnMs }) => turnMs);
  return Math.max(...turnsMs.map((from) => turnsMs.filter((at) => at >= from && at < from + windowMs).length));
}

type Pixel = readonly [x: number, y: number];

const WIDTH = 720;
const HEIGHT = 260;
const LEFT = 40;
const RIGHT = 704;
const HITS_TOP = 44;
const LANE = 12;
const BOTTOM = 228;
const RADIUS = 4;
const ink = {
  text: '#1f2328',
  pale: '#656d76',
  line: '#d0d7de',
  area: '#ddf4ff',
  good: '#0969da',
  bad: '#cf222e',
  limit: '#9a6700',
};

function draw(picture: Picture): string {
  const { title, limit, schedule, quantity, dashed, labels, boundaryMs } = picture;
  const { arrivals, line } = replay(picture);
  const lanes = lanesOf(arrivals, (atMs) => x(atMs));
  const top = HITS_TOP + LANE * Math.max(...lanes) + 38;
  const highest = Math.max(...line.map(({ value }) => value), ...dashed.map(({ at }) => at)) * 1.12;
  function x(atMs: number): number {
    return LEFT + 8 + ((RIGHT - LEFT - 16) * atMs) / schedule.endMs;
  }
  const y = (value: number): number => BOTTOM - ((BOTTOM - top) * value) / highest;

  const passed = arrivals.filter((one) => one.passed).length;
  const held = arrivals.filter((one) => one.turnMs > one.atMs).length;
  const most =
    held > 0
      ? `${held} were held`
      : `at most ${mostWithin(limit.windowMs, arrivals)} within ${limit.windowMs / 1_000} s`;
  const graph = withoutStraights(line.map(({ atMs, value }) => [x(atMs), y(value)] as const));
  const edge = graph.map(([px, py]) => `${round(px)},${round(py)}`).join(' ');

  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="11" fill="${ink.text}">`,
    `<title>${title}: ${passed} of ${arrivals.length} hits passed, ${most}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(LEFT, 20, title, 'font-size="13" font-weight="600"'),
    text(
      RIGHT,
      20,
      `${coloured('●', ink.good)} ${passed} passed, ${coloured('⊗', ink.bad)} ${arrivals.length - passed} refused, ${most}`,
      'text-anchor="end"',
    ),
    ...every(boundaryMs, schedule.endMs).map((atMs) => upright(x(atMs), 30, BOTTOM, ink.line)),
    ...arrivals.map((arrival, at) => mark(arrival, HITS_TOP + LANE * (lanes[at] ?? 0), x)),
    text(LEFT, top - 8, quantity.name, `fill="${ink.pale}"`),
    `<polygon points="${round(x(0))},${BOTTOM} ${edge} ${round(x(schedule.endMs))},${BOTTOM}" fill="${ink.area}" fill-opacity="0.7"/>`,
    `<polyline points="${edge}" fill="none" stroke="${ink.good}" stroke-width="1.5" stroke-linejoin="round"/>`,
    ...dashed.flatMap(({ at, label }) => limitLine(y(at), at, label, labels)),
    `<path d="M${LEFT} ${BOTTOM}H${RIGHT}" stroke="${ink.pale}"/>`,
    text(LEFT - 6, BOTTOM + 4, '0', 'text-anchor="end"'),
    ...every(schedule.label.everyMs, schedule.endMs).flatMap((atMs) => [
      upright(x(atMs), BOTTOM, BOTTOM + 4, ink.pale),
      text(x(atMs), BOTTOM + 17, schedule.label.of(atMs), 'text-anchor="middle"'),
    ]),
    '</svg>',
  ].join('\n')}\n`;
}

/** A row for each hit: the first in which the mark and its line to its turn cover no other. */
function lanesOf(arrivals: readonly Arrival[], x: (atMs: number) => number): readonly number[] {
  const freeFrom: number[] = [];
  return arrivals.map(({ atMs, turnMs }) => {
    const found = freeFrom.findIndex((from) => from <= x(atMs) - RADIUS);
    const lane = found < 0 ? freeFrom.length : found;
    freeFrom[lane] = x(turnMs) + RADIUS;
    return lane;
  });
}

/** A filled mark for a hit that passes, a crossed one for a refused hit, a thin line from the arrival of a held hit. */
function mark({ atMs, passed, turnMs }: Arrival, y: number, x: (atMs: number) => number): string {
  const circle = (style: string) => `<circle cx="${round(x(turnMs))}" cy="${y}" r="${RADIUS}" ${style}/>`;
  if (!passed) {
    const arm = 2.1;
    const [left, right] = [round(x(atMs) - arm), round(x(atMs) + arm)];
    const cross = `M${left} ${round(y - arm)}L${right} ${round(y + arm)}M${left} ${round(y + arm)}L${right} ${round(y - arm)}`;
    return `${circle(`fill="#ffffff" stroke="${ink.bad}"`)}<path d="${cross}" stroke="${ink.bad}"/>`;
  }
  const way = `M${round(x(atMs))} ${y - RADIUS}v${2 * RADIUS}M${round(x(atMs))} ${y}H${round(x(turnMs))}`;
  return `${turnMs > atMs ? `<path d="${way}" stroke="${ink.good}"/>` : ''}${circle(`fill="${ink.good}" stroke="${ink.good}"`)}`;
}

const limitLine = (y: number, value: number, label: string, at: 'start' | 'end'): readonly string[] => [
  `<path d="M${LEFT} ${round(y)}H${RIGHT}" stroke="${ink.limit}" stroke-dasharray="5 4"/>`,
  text(LEFT - 6, y + 4, String(value), 'text-anchor="end"'),
  text(at === 'start' ? LEFT + 14 : RIGHT, y - 4, label, `text-anchor="${at}" fill="${ink.limit}"`),
];

const upright = (x: number, from: number, to: number, colour: string): string =>
  `<path d="M${round(x)} ${from}V${to}" stroke="${colour}"/>`;

const text = (x: number, y: number, words: string, style: string): string =>
  `<text x="${round(x)}" y="${round(y)}" ${style}>${words}</text>`;

const coloured = (words: string, colour: string): string => `<tspan fill="${colour}">${words}</tspan>`;

const every = (everyMs: number | undefined, endMs: number): readonly number[] =>
  everyMs === undefined ? [] : Array.from({ length: Math.floor(endMs / everyMs) + 1 }, (_, at) => at * everyMs);

/** Removes points that lie on a straight line between their neighbours, up to an invisible difference. */
function withoutStraights(points: readonly Pixel[]): readonly Pixel[] {
  const kept: Pixel[] = [];
  for (const point of points) {
    const [a, b] = kept.slice(-2);
    if (a && b && distance(b, a, point) < 0.4) kept.pop();
    kept.push(point);
  }
  return kept;
}

/** The distance of a point from the straight line through two others. */
function distance([px, py]: Pixel, [ax, ay]: Pixel, [bx, by]: Pixel): number {
  return Math.abs((px - ax) * (by - ay) - (py - ay) * (bx - ax)) / Math.hypot(bx - ax, by - ay);
}

const round = (number: number): number => Math.round(number * 10) / 10;

/**
 * The drawings in docs/img/, by path relative to the project's root. `npm run docs` writes them; a test compares them.
 */
export const plots: ReadonlyMap<string, string> = new Map(
  Object.entries(pictures).map(([name, picture]) => [`docs/img/${name}.svg`, draw(picture)]),
);
