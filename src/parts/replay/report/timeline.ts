import { count as countText, moment } from '../../../base/texts.ts';
import { rfc3339 } from '../../../base/times.ts';
import { spanText } from '../report.ts';
import { html, type Markup } from './markup.ts';
import {
  type OutcomeCounts,
  type OutcomeSeries,
  type RequestOutcome,
  sumOutcomes,
  type TimeAxis,
} from './time-axis.ts';

/** The names of outcomes in a plot and its legend. */
export type OutcomeNames = Readonly<Record<RequestOutcome, string>>;
export const outcomeNames = {
  change: { passed: 'passed', spared: 'newly admitted', newly_refused: 'newly refused', refused: 'refused by both' },
  single: { passed: 'passed', spared: '', newly_refused: '', refused: 'refused' },
} as const satisfies Record<string, OutcomeNames>;

/** Order of outcomes in a column, from the bottom. */
export const STACK = ['passed', 'spared', 'refused', 'newly_refused'] as const satisfies readonly RequestOutcome[];
/** Height of a plot, in units of its drawing. */
export const HEIGHT = 100;

/** Fraction of the highest column below which refusals are also drawn on a scale of their own. */
const SMALL_FRACTION = 0.12;

/** The columns of a plot, and when they begin. */
interface Plotted {
  readonly columns: readonly Readonly<OutcomeCounts>[];
  readonly startMs: number;
  readonly columnMs: number;
}

/**
 * Renders requests over time as stacked columns. The drawing is stretched to the width of the page, with its texts
 * outside so that they have the same size on every screen.
 */
export function timeline(series: OutcomeSeries, axis: TimeAxis, names: OutcomeNames): Markup {
  const { columnMs } = axis;
  const plotted = { columns: series.columns(), startMs: axis.columns.first * columnMs, columnMs };
  const [, ...affected] = STACK;
  const most = highest(plotted, affected);
  const isSmall = most > 0 && most < SMALL_FRACTION * highest(plotted, STACK);
  return html`${stackedColumns(plotted, STACK, names)}
${isSmall && html`<div class="detail">${stackedColumns(plotted, affected, names)}</div>`}
<p class="unit">requests in ${spanText(columnMs)}, by time in UTC${isSmall && `; below, only those that ${names.spared === '' ? 'were refused' : 'a side refused'}`}</p>`;
}

const highest = ({ columns }: Plotted, stack: readonly RequestOutcome[]): number =>
  columns.reduce((most, column) => Math.max(most, sumOutcomes(column, stack)), 0);

function stackedColumns(plotted: Plotted, stack: readonly RequestOutcome[], names: OutcomeNames): Markup {
  const { columns, startMs, columnMs } = plotted;
  const top = roundUp(Math.max(highest(plotted, stack), 1));
  const y = (value: number): number => round(HEIGHT - (HEIGHT * value) / top);
  const paths = stack.map((outcome, place) => {
    let path = '';
    for (const [at, column] of columns.entries()) {
      if (column[outcome] === 0) continue;
      const below = sumOutcomes(column, stack.slice(0, place));
      path += `M${at + 0.06} ${y(below)}V${y(below + column[outcome])}h.88V${y(below)}z`;
    }
    return path !== '' && html`<path class="${outcome}" d="${path}"/>`;
  });
  const totalsText = (count: (outcome: RequestOutcome) => number): string =>
    stack.flatMap((one) => (count(one) > 0 ? `${countText(count(one))} ${names[one]}` : [])).join(', ');
  const hovers = columns.map((column, at) => {
    const parts = totalsText((outcome) => column[outcome]);
    const when = `${moment(startMs + at * columnMs)} UTC, ${spanText(columnMs)}`;
    return (
      parts !== '' && html`<rect x="${at}" y="0" width="1" height="${HEIGHT}"><title>${when}: ${parts}</title></rect>`
    );
  });
  const totals = totalsText((outcome) => columns.reduce((sum, column) => sum + column[outcome], 0));
  return html`<div class="plot">
<div class="y"><span>${countText(top)}</span><span>${countText(top / 2)}</span><span>0</span></div>
<div class="area"><svg viewBox="0 0 ${columns.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Requests over time: ${totals || 'none'}"><path class="grid" d="M0 .5H${columns.length}M0 50H${columns.length}"/>${paths}<path class="base" d="M0 ${HEIGHT}H${columns.length}"/><g class="hover">${hovers}</g></svg></div>
<div class="x">${ticks(startMs, columns.length * columnMs)}</div>
</div>`;
}

const TICKS_MS = [
  ...[100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000],
  ...[43_200_000, 86_400_000, 172_800_000, 604_800_000, 1_209_600_000, 6_048_000_000, 60_480_000_000],
];
const MAX_TICKS = 7;

function ticks(startMs: number, lengthMs: number): readonly Markup[] {
  const everyMs = TICKS_MS.find((ms) => lengthMs / ms <= MAX_TICKS) ?? lengthMs;
  const found: Markup[] = [];
  for (let atMs = Math.ceil(startMs / everyMs) * everyMs; atMs <= startMs + lengthMs; atMs += everyMs) {
    const left = (100 * (atMs - startMs)) / lengthMs;
    if (left > 96) break; // no space for its text
    found.push(html`<span style="left:${round(left)}%">${tickText(atMs, everyMs)}</span>`);
  }
  return found;
}

/** Rounds up to 1, 2, 4, 6, 8 or 10 times a power of ten, and at least to 2, so that half of it is an integer. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 4, 6, 8, 10].find((one) => one * power >= value) ?? 10;
  return Math.max(2, factor * power);
}

/** Rounds to two decimals. */
export const round = (number: number): number => Math.round(number * 100) / 100;

/** The label of a tick, if ticks are `everyMs` apart: `09:17`, `09:17:16`, `22 Nov`. */
function tickText(atMs: number, everyMs: number): string {
  const [date = '', time = ''] = rfc3339(atMs).split('T');
  if (everyMs >= 86_400_000) return `${Number(date.slice(8))} ${MONTHS[Number(date.slice(5, 7)) - 1]}`;
  return everyMs >= 60_000 ? time.slice(0, 5) : everyMs >= 1_000 ? time.slice(0, 8) : time.slice(6, 11);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;
