import type { State } from '../src/engine/algorithms/limit.ts';
import { joinNodes, nodeState } from '../src/engine/holds/nodes.ts';
import type { ChildNumbers } from '../src/engine/holds/sharing.ts';
import { type FairShareLimit, fairShare } from '../src/parts/fair-shares/fair-share.ts';

/** A child in a plot: what it asks for in each second, and its part of the limit. */
interface PlottedChild {
  readonly name: string;
  readonly colour: string;
  readonly numbers?: Partial<ChildNumbers>;
  readonly threshold?: number;
  /** Hits per second at a time, in seconds. */
  demand(second: number): number;
}

interface Plot {
  readonly title: string;
  readonly seconds: number;
  readonly children: readonly PlottedChild[];
}

const RATE = 1_000;
const blue = '#0969da';
const red = '#cf222e';
const green = '#2b8a57';
const grey = '#8c959f';

const between = (from: number, until: number, rate: number) => (second: number) =>
  second >= from && second < until ? rate : 0;

const pictures: Readonly<Record<string, Plot>> = {
  'share-lends': {
    title: 'An idle tenant lends, and has its reservation at once when it returns',
    seconds: 12,
    children: [
      { name: 'a: reserve 40 %', colour: blue, numbers: { reserve: 400 }, demand: between(4, 8, 400) },
      { name: 'b: asks for 3,000', colour: red, demand: () => 3_000 },
    ],
  },
  'share-weights': {
    title: 'What is not reserved is divided by weight among those that ask',
    seconds: 12,
    children: [
      { name: 'weight 3', colour: blue, numbers: { weight: 3 }, demand: () => 2_000 },
      {
        name: 'weight 2, pauses',
        colour: green,
        numbers: { weight: 2 },
        demand: (at) => (at >= 4 && at < 8 ? 0 : 2_000),
      },
      { name: 'weight 1', colour: grey, demand: () => 2_000 },
    ],
  },
  'share-flood': {
    title: 'A flood takes only its fair share from users whom no rule names',
    seconds: 12,
    children: [
      { name: 'floods with 12,000', colour: red, demand: between(3, 9, 12_000) },
      { name: 'asks for 300', colour: blue, demand: () => 300 },
      { name: 'asks for 250', colour: green, demand: () => 250 },
    ],
  },
  'share-returns': {
    title: 'A tenant that calls every three seconds passes each time, beside a flood of 12,000',
    seconds: 12,
    children: [
      { name: 'floods with 12,000', colour: red, demand: () => 12_000 },
      {
        name: 'burst of 100 every 3 s',
        colour: blue,
        demand: (at) => (at % 3 >= 2 && at % 3 < 2.05 ? 2_000 : 0),
      },
    ],
  },
  'share-priorities': {
    title: 'Sheddable calls leave room for critical ones',
    seconds: 12,
    children: [
      { name: 'critical: asks for 700', colour: blue, threshold: 100, demand: () => 700 },
      {
        name: 'sheddable: spikes to 12,000',
        colour: grey,
        threshold: 60,
        demand: (at) => (at >= 4 && at < 8 ? 12_000 : 500),
      },
    ],
  },
};

const START_MS = 1_700_000_000_000;
const STEP_MS = 250;

/** Runs the real step, and returns the hits per second of each child that passed, in steps of a quarter second. */
function run({ seconds, children }: Plot): readonly (readonly number[])[] {
  const nodes: (State | undefined)[] = [undefined, ...children.map(() => undefined)];
  const due = children.map((_, at) => at / children.length);
  const reserved = children.reduce((sum, { numbers }) => sum + (numbers?.reserve ?? 0), 0);
  const rates: number[][] = children.map(() => []);
  for (let ms = 0; ms < seconds * 1_000; ms++)
    for (const [turn] of children.entries()) {
      const at = (turn + ms) % children.length;
      const { numbers, threshold, demand } = children[at] as PlottedChild; // in range
      const path = [{ key: 'tenant', reserve: 0, weight: 1, ceiling: 0, ...numbers }];
      const limit: FairShareLimit = {
        ...{ algorithm: 'fair_share', counter: '', requestsPerUnit: RATE, soft: 0, windowMs: 1_000, burst: RATE / 4 },
        ...{ path, reserved, ...(threshold !== undefined && { threshold }) },
      };
      due[at] = (due[at] ?? 0) + demand(ms / 1_000) / 1_000;
      const column = Math.floor(ms / STEP_MS);
      const counts = rates[at] as number[];
      counts[column] ??= 0;
      for (; (due[at] ?? 0) >= 1; due[at] = (due[at] ?? 0) - 1) {
        const share = { children: [at + 1] };
        const state = joinNodes([nodes[0], nodes[at + 1]]);
        const next = fairShare.step(limit, state, START_MS + ms, 1, true, { share });
        nodes[0] = nodeState(next.state, 0);
        nodes[at + 1] = nodeState(next.state, 1);
        if (next.accepted) counts[column] += 1_000 / STEP_MS;
      }
    }
  return rates;
}

const WIDTH = 720;
const HEIGHT = 230;
const LEFT = 48;
const RIGHT = 704;
const TOP = 56;
const BOTTOM = 204;
const MOST = 1_250;
const round = (number: number): number => Math.round(number * 10) / 10;

function draw(plot: Plot): string {
  const { title, seconds, children } = plot;
  const rates = run(plot);
  const x = (second: number): number => LEFT + ((RIGHT - LEFT) * second) / seconds;
  const y = (rate: number): number => BOTTOM - ((BOTTOM - TOP) * Math.min(rate, MOST)) / MOST;
  const text = (px: number, py: number, words: string, more = ''): string =>
    `<text x="${round(px)}" y="${round(py)}"${more}>${words}</text>`;
  const lines = children.map(({ colour }, at) => {
    const points = (rates[at] ?? []).map(
      (rate, column) => `${round(x(((column + 0.5) * STEP_MS) / 1_000))},${round(y(rate))}`,
    );
    return `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="2" stroke-linejoin="round"/>`;
  });
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="11" fill="#1f2328">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(8, 20, title, ' font-size="13" font-weight="600"'),
    ...children.flatMap(({ name, colour }, at) => [
      `<rect x="${LEFT + at * 210}" y="32" width="10" height="10" rx="2" fill="${colour}"/>`,
      text(LEFT + 16 + at * 210, 41, name, ' fill="#59636e"'),
    ]),
    ...[0, 500, 1_000].flatMap((rate) => [
      `<path d="M${LEFT} ${round(y(rate))}H${RIGHT}" stroke="#d0d7de"${rate === RATE ? ' stroke-dasharray="4 3"' : ''}/>`,
      text(LEFT - 6, y(rate) + 4, rate.toLocaleString('en-US'), ' text-anchor="end" fill="#59636e"'),
    ]),
    ...lines,
    ...Array.from({ length: seconds / 2 + 1 }, (_, at) =>
      text(x(at * 2), BOTTOM + 17, `${at * 2} s`, ' text-anchor="middle" fill="#59636e"'),
    ),
    '</svg>',
  ].join('\n')}\n`;
}

/** The drawings of docs/fair-shares.md, by path relative to the project's root. */
export const sharePlots: ReadonlyMap<string, string> = new Map(
  Object.entries(pictures).map(([name, plot]) => [`docs/img/${name}.svg`, draw(plot)]),
);
