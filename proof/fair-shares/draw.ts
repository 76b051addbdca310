import type { MeasuredChild } from '../../test/helpers/share-trees.ts';
import type { MeasuredTree, TreeRun } from './measure.ts';

const WIDTH = 720;
const HEIGHT = 460;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 700, 64, 404];
/** Bounds and grid lines of both axes. */
const [LEAST, MOST] = [0.1, 200];
const TICKS = [0.1, 1, 10, 100];
const ink = { text: '#1f2328', pale: '#59636e', line: '#d0d7de', band: '#dafbe1', good: '#0969da', bad: '#cf222e' };

const part = (value: number): number =>
  Math.log(Math.min(Math.max(value, LEAST), MOST) / LEAST) / Math.log(MOST / LEAST);
const x = (value: number): number => Math.round(LEFT + (RIGHT - LEFT) * part(value));
const y = (value: number): number => Math.round(BOTTOM - (BOTTOM - TOP) * part(value));

const text = (atX: number, atY: number, words: string, more = ''): string =>
  `<text x="${atX}" y="${atY}"${more}>${words}</text>`;

/** A dot for each place that has a child. */
function dots(children: readonly MeasuredChild[], colour: string, width: number): string {
  const places = new Set(children.map(({ share, got }) => `M${x(share)} ${y(got)}h0`));
  return `<path d="${[...places].join('')}" stroke="${colour}" stroke-width="${width}" stroke-linecap="round"/>`;
}

/** What is within 5 % or 2 of the model. */
function band(): string {
  const shares = Array.from({ length: 101 }, (_, at) => LEAST * (MOST / LEAST) ** (at / 100));
  const edge = (sign: 1 | -1) => shares.map((share) => `${x(share)},${y(share + sign * Math.max(0.05 * share, 2))}`);
  return `<polygon points="${[...edge(1), ...edge(-1).reverse()].join(' ')}" fill="${ink.band}"/>`;
}

const units: Readonly<Record<TreeRun['of'], string>> = { rates: 'hits per second', slots: 'slots' };

/** What each child got beside what the fluid model gives it, on two logarithmic axes. */
export function drawTrees(of: TreeRun['of'], trees: readonly MeasuredTree[]): string {
  const children = trees.flatMap((tree) => tree.children);
  const wrong = children.filter(({ off }) => off > 1);
  const [all, count] = [children, trees].map(({ length }) => length.toLocaleString('en-US'));
  const title = `${of === 'rates' ? 'Hits per second' : 'Slots'} of ${all} children in ${count} random trees, beside their fair shares`;
  const legend = (at: number, colour: string, words: string): string =>
    `<rect x="${LEFT + at}" y="36" width="10" height="10" rx="2" fill="${colour}"/>${text(LEFT + at + 16, 45, words, ` fill="${ink.pale}"`)}`;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="11" fill="${ink.text}">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text(8, 20, title, ' font-size="13" font-weight="600"'),
    legend(0, ink.band, `within 5 % or 2 ${units[of]} of the share`),
    legend(296, ink.good, 'a child'),
    legend(372, ink.bad, `${wrong.length} that are further off`),
    band(),
    ...TICKS.flatMap((tick) => [
      `<path d="M${LEFT} ${y(tick)}H${RIGHT}M${x(tick)} ${TOP}V${BOTTOM}" stroke="${ink.line}" fill="none"/>`,
      text(LEFT - 8, y(tick) + 4, tick === LEAST ? `≤ ${tick}` : String(tick), ` text-anchor="end" fill="${ink.pale}"`),
      text(
        x(tick),
        BOTTOM + 18,
        tick === LEAST ? `≤ ${tick}` : String(tick),
        ` text-anchor="middle" fill="${ink.pale}"`,
      ),
    ]),
    dots(
      children.filter(({ off }) => off <= 1),
      ink.good,
      3,
    ),
    dots(wrong, ink.bad, 5),
    text(
      (LEFT + RIGHT) / 2,
      BOTTOM + 42,
      `fair share by the fluid model, ${units[of]}`,
      ` text-anchor="middle" fill="${ink.pale}"`,
    ),
    text(
      0,
      0,
      `what the child got, ${units[of]}`,
      ` text-anchor="middle" fill="${ink.pale}" transform="translate(20 ${(TOP + BOTTOM) / 2}) rotate(-90)"`,
    ),
    '</svg>',
  ].join('\n')}\n`;
}
