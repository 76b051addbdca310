import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { count } from '../format.ts';

export interface PlotLine {
  readonly label: string;
  readonly values: readonly number[];
  /** A custom property of the style sheet. */
  readonly color: string;
  readonly isDashed?: boolean;
  readonly isFilled?: boolean;
  /** 0 means that nothing was measured. */
  readonly isMeasured?: boolean;
}

interface PlotProps {
  readonly title: string;
  readonly lines: readonly PlotLine[];
  /** The lines are areas on top of each other, the first at the bottom. */
  readonly isStacked?: boolean;
  /** The time of the newest value. */
  readonly endMs: number;
  readonly stepMs: number;
  /** The number of steps on the axis, even without values. */
  readonly steps: number;
  readonly unit: string;
  /** Times at which vertical lines are drawn, numbered from 1. */
  readonly marks?: readonly number[];
}

const HEIGHT = 208;

const colorOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Lines over time. The axis covers the whole range from the start, so that only the lines move. */
export function Plot(props: PlotProps) {
  const { title, lines, isStacked = false, endMs, stepMs, steps, unit } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const marks = useRef<readonly number[]>([]);
  marks.current = props.marks ?? [];
  const shape = lines.map(({ label, color }) => `${label}${color}`).join();
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  useEffect(() => {
    const parent = place.current;
    if (!parent) return;
    const make = (): uPlot => {
      const options = { ...optionsFor(props, parent.clientWidth), hooks: { draw: [drawMarks(marks)] } };
      return new uPlot(options, dataFor(props), parent);
    };
    plot.current = make();
    const again = (): void => {
      plot.current?.destroy();
      plot.current = make();
    };
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: parent.clientWidth, height: HEIGHT }));
    resized.observe(parent);
    scheme.addEventListener('change', again);
    return () => {
      resized.disconnect();
      scheme.removeEventListener('change', again);
      plot.current?.destroy();
    };
  }, [shape, unit, isStacked]);
  useEffect(() => plot.current?.setData(dataFor(props)), [lines, endMs, stepMs, steps, props.marks]);
  return (
    <figure class="plot" aria-label={`${title}. ${summaryOf(lines, unit)}`}>
      <figcaption class="legend">
        {lines.map(({ label, color, values, isDashed, isMeasured = false }) => (
          <span key={label}>
            <span
              class={isStacked ? 'swatch area' : isDashed ? 'swatch dashed' : 'swatch'}
              style={{ borderColor: `var(${color})` }}
            />{' '}
            {label} <span class="number">{isMeasured && !values.at(-1) ? '–' : count(values.at(-1) ?? 0)}</span>
          </span>
        ))}
        {isStacked && (
          <span>
            offered{' '}
            <span class="number">{count(lines.reduce((sum, { values }) => sum + (values.at(-1) ?? 0), 0))}</span>
          </span>
        )}
        <span class="dim">{unit}</span>
      </figcaption>
      <div ref={place} class="plot-place" aria-hidden="true" />
    </figure>
  );
}

const summaryOf = (lines: readonly PlotLine[], unit: string): string =>
  lines
    .map(
      ({ label, values }) =>
        `${label}: ${count(values.at(-1) ?? 0)} ${unit} now, at most ${count(Math.max(0, ...values))}`,
    )
    .join('. ');

/** Series are drawn in order: of a stack the highest comes first, and the others cover it. */
function dataFor({ lines, isStacked, endMs, stepMs, steps }: PlotProps): uPlot.AlignedData {
  const times = Array.from({ length: steps }, (_, at) => (endMs - (steps - 1 - at) * stepMs) / 1_000);
  const padded = lines.map(({ values, isMeasured }) => [
    ...new Array<null>(Math.max(steps - values.length, 0)).fill(null),
    ...values.slice(-steps).map((value) => (isMeasured && value === 0 ? null : value)),
  ]);
  return [times, ...(isStacked ? stacked(padded) : padded)];
}

function stacked(columns: readonly (number | null)[][]): readonly (number | null)[][] {
  let below: readonly (number | null)[] = [];
  const sums = columns.map((column) => {
    const sum = column.map((value, at) => (value === null ? null : value + (below[at] ?? 0)));
    below = sum;
    return sum;
  });
  return sums.reverse();
}

function optionsFor({ lines, isStacked, unit }: PlotProps, width: number): uPlot.Options {
  const ink = colorOf('--dim');
  const grid = colorOf('--line');
  const font = '14px system-ui, sans-serif';
  const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [16, 32, 0, 0],
    scales: { y: { range: (_, __, highest) => [0, Math.max(highest * 1.1, unit === 'ms' ? 1 : 5)] } },
    axes: [
      { ...axis, space: 88, size: 32, values: (_, splits, __, ___, step) => splits.map((at) => clock(at, step)) },
      { ...axis, size: 56, values: (_, splits) => splits.map((value) => count(value)) },
    ],
    series: [{}, ...(isStacked ? lines.map(areaOf).reverse() : lines.map(lineOf))],
  };
}

const areaOf = ({ label, color }: PlotLine): uPlot.Series => ({
  label,
  stroke: colorOf(color),
  width: 1,
  points: { show: false },
  fill: colorOf(color),
});

const lineOf = ({ label, color, isDashed, isFilled }: PlotLine): uPlot.Series => ({
  label,
  stroke: colorOf(color),
  width: 2,
  points: { show: false },
  ...(isDashed && { dash: [6, 4] }),
  ...(isFilled && { fill: `${colorOf(color)}22` }),
});

/** Draws a numbered line at each mark. */
const drawMarks = (marks: { readonly current: readonly number[] }) => (plot: uPlot) => {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colorOf('--link');
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 4 * ratio]);
  ctx.font = `${14 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  let free = 0; // where the next number may stand beside those before it
  for (const [at, ms] of marks.current.entries()) {
    const x = plot.valToPos(ms / 1_000, 'x', true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const numberAt = Math.max(x, free);
    ctx.fillText(String(at + 1), numberAt, bbox.top - 3 * ratio);
    free = numberAt + ctx.measureText(`${at + 1} `).width;
  }
  ctx.restore();
};

const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const minutes = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const clock = (atSeconds: number, stepSeconds: number): string =>
  (stepSeconds < 60 ? seconds : minutes).format(atSeconds * 1_000);
