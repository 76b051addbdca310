import { type KeyRow, outcomeOfKey } from './key-table.ts';
import { html, type Markup } from './markup.ts';
import type { ShownLimit } from './report-data.ts';
import { count, counted } from './texts.ts';
import { outcomes, type RequestOutcome } from './time-axis.ts';

interface Bin {
  /** Keys whose busiest window had more than `above`, and at most `to` hits. */
  readonly above: number;
  readonly to: number;
  readonly keys: Record<RequestOutcome, number>;
}

/** The number of keys by the hits of their busiest window, and by outcome. */
export function distribution(
  rows: Iterable<KeyRow>,
  limits: { readonly before: ShownLimit | undefined; readonly after: ShownLimit | undefined },
  names: Readonly<Record<RequestOutcome, string>>,
): Markup {
  const bins = binsOf(rows, [limits.before?.limit ?? 0, limits.after?.limit ?? 0]);
  const most = Math.max(...bins.map(sumOf), 1);
  const columns = bins.map((bin, at) => column(bin, at, most, names));
  const summary = bins.flatMap((bin) =>
    sumOf(bin) > 0 ? [`${counted(sumOf(bin), 'key')} with ${rangeText(bin)}`] : [],
  );
  const { before, after } = limits;
  const isSame = before?.limit === after?.limit || !before || !after;
  return html`<div class="bins">
<div class="area"><svg viewBox="0 0 ${bins.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Keys by the hits in their busiest window: ${summary.join(', ') || 'none'}">${columns.map(({ bars }) => bars)}<path class="base" d="M0 ${HEIGHT}H${bins.length}"/></svg>
${bins.map((bin, at) => sumOf(bin) > 0 && html`<b style="left:${round((100 * (at + 0.5)) / bins.length)}%;bottom:${round(columns[at]?.height ?? 0)}%">${short(sumOf(bin))}</b>`)}
${isSame ? (after ?? before) && marker(bins, (after ?? before)?.limit ?? 0, 'after', 'limit') : [marker(bins, before.limit, 'before', 'before'), marker(bins, after.limit, 'after', 'after')]}</div>
<div class="x">${bins.map((bin) => html`<span>${bin.to - bin.above === 1 ? count(bin.to) : `≤${short(bin.to)}`}</span>`)}</div>
</div>
<p class="unit">keys, by the hits in their busiest window</p>`;
}

/** A column with a segment for each outcome, and its height. */
function column(bin: Bin, at: number, most: number, names: Readonly<Record<RequestOutcome, string>>) {
  let height = 0;
  const bars = STACK.flatMap((outcome) => {
    const keys = bin.keys[outcome];
    if (keys === 0) return [];
    const part = Math.max(LEAST_HEIGHT, ((HEIGHT - HEADROOM) * keys) / most);
    height += part;
    const what = outcome === 'passed' ? 'never refused' : names[outcome];
    return [
      html`<rect class="${outcome}" x="${round(at + 0.06)}" y="${round(HEIGHT - height)}" width=".88" height="${round(part)}"><title>${counted(keys, 'key')} ${what}, with ${rangeText(bin)}</title></rect>`,
    ];
  });
  return { bars, height };
}

const STACK = ['passed', 'spared', 'refused', 'newly_refused'] as const satisfies readonly RequestOutcome[];
const HEIGHT = 100;
/** Space for the number above the highest column, and for the names of the limits. */
const HEADROOM = 32;
/** The least height of a visible segment. */
const LEAST_HEIGHT = 3;

/** A limit above this multiple of the busiest key's hits is not drawn to scale. */
const FAR = 20;

const round = (number: number): number => Math.round(number * 100) / 100;

/** A line at a limit's place among the columns; within each column, the scale is linear. */
function marker(bins: readonly Bin[], limit: number, kind: 'before' | 'after', name: string): Markup | false {
  const at = bins.findIndex(({ to }) => limit <= to);
  const bin = bins[at];
  const place = bin ? at + (limit - bin.above) / (bin.to - bin.above) : bins.length;
  const left = Math.min(99.5, (100 * place) / bins.length);
  return html`<div class="marker ${kind}${left > 80 && ' left'}" style="left:${Math.round(left * 10) / 10}%"><span>${name} ${count(limit)}</span></div>`;
}

/** @param limits  are within the bins too, unless they are far above the busiest key */
function binsOf(rows: Iterable<KeyRow>, limits: readonly number[]): readonly Bin[] {
  const all = [...rows];
  const busiest = all.reduce((most, row) => Math.max(most, row.busiest), 1);
  const highest = Math.max(busiest, ...limits.filter((limit) => limit <= FAR * busiest));
  const bins: Bin[] = [];
  for (let above = 0; above < highest; above = bins.at(-1)?.to ?? highest)
    bins.push({ above, to: nextBound(above), keys: { passed: 0, spared: 0, newly_refused: 0, refused: 0 } });
  for (const row of all) {
    const bin = bins.find(({ to }) => row.busiest <= to);
    if (bin) bin.keys[outcomeOfKey(row)]++;
  }
  return bins;
}

/** 1, 2, 5, 10, 20, 50 and so on. */
function nextBound(bound: number): number {
  if (bound === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(bound) + 1e-9);
  const first = Math.round(bound / power);
  return (first === 1 ? 2 : first === 2 ? 5 : 10) * power;
}

const sumOf = ({ keys }: Bin): number => outcomes.reduce((sum, outcome) => sum + keys[outcome], 0);

const rangeText = ({ above, to }: Bin): string =>
  to - above === 1 ? counted(to, 'hit') : `${count(above + 1)} to ${count(to)} hits`;

/** `9,500`, `34k`, `5M`. */
function short(number: number): string {
  if (number < 10_000) return count(number);
  const [unit, letter] = number < 1_000_000 ? [1_000, 'k'] : [1_000_000, 'M'];
  const units = number / unit;
  return `${units < 10 ? Math.round(units * 10) / 10 : Math.round(units)}${letter}`;
}
