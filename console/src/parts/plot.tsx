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
}

interface PlotProps {
  readonly title: string;
  readonly lines: readonly PlotLine[];
  /** The time of the newest value. */
  readonly endMs: number;
  readonly stepMs: number;
  /** The number of steps on the axis, even without values. */
  readonly steps: number;
  readonly unit: string;
}

const HEIGHT = 208;

const colorOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Lines over time. The axis covers the whole range from the start, so that only the lines move. */
export function Plot({ title, lines, endMs, stepMs, steps, unit }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const shape = lines.map(({ label, color }) => `${label}${color}`).join();
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  useEffect(() => {
    const parent = place.current;
    if (!parent) return;
    const make = (): uPlot =>
      new uPlot(optionsOf(lines, parent.clientWidth, unit), dataOf(lines, endMs, stepMs, steps), parent);
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
  }, [shape, unit]);
  useEffect(() => plot.current?.setData(dataOf(lines, endMs, stepMs, steps)), [lines, endMs, stepMs, steps]);
  return (
    <figure class="plot" aria-label={`${title}. ${summaryOf(lines, unit)}`}>
      <figcaption class="legend">
        {lines.map(({ label, color, values, isDashed }) => (
          <span key={label}>
            <span class={isDashed ? 'swatch dashed' : 'swatch'} style={{ borderColor: `var(${color})` }} /> {label}{' '}
            <span class="number">{count(values.at(-1) ?? 0)}</span>
          </span>
        ))}
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

function dataOf(lines: readonly PlotLine[], endMs: number, stepMs: number, steps: number): uPlot.AlignedData {
  const times = Array.from({ length: steps }, (_, at) => (endMs - (steps - 1 - at) * stepMs) / 1_000);
  const padded = lines.map(({ values }) => [
    ...new Array<null>(Math.max(steps - values.length, 0)).fill(null),
    ...values.slice(-steps),
  ]);
  return [times, ...padded];
}

function optionsOf(lines: readonly PlotLine[], width: number, unit: string): uPlot.Options {
  const ink = colorOf('--dim');
  const grid = colorOf('--line');
  const font = '14px system-ui, sans-serif';
  const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 32, 0, 0],
    scales: { y: { range: (_, __, highest) => [0, Math.max(highest * 1.1, unit === 'ms' ? 1 : 5)] } },
    axes: [
      { ...axis, space: 88, size: 32, values: (_, splits, __, ___, step) => splits.map((at) => clock(at, step)) },
      { ...axis, size: 56, values: (_, splits) => splits.map((value) => count(value)) },
    ],
    series: [
      {},
      ...lines.map(({ label, color, isDashed, isFilled }) => ({
        label,
        stroke: colorOf(color),
        width: 2,
        points: { show: false },
        ...(isDashed && { dash: [6, 4] }),
        ...(isFilled && { fill: `${colorOf(color)}22` }),
      })),
    ],
  };
}

const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const minutes = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const clock = (atSeconds: number, stepSeconds: number): string =>
  (stepSeconds < 60 ? seconds : minutes).format(atSeconds * 1_000);
