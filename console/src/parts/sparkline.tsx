const WIDTH = 120;
const HEIGHT = 24;
const STEPS = 60;

interface SparklineProps {
  readonly series: Readonly<Record<string, readonly number[]>> | undefined;
  readonly label: string;
}

/** Sixty steps: passed requests as an area, with refused ones on top. */
export function Sparkline({ series, label }: SparklineProps) {
  const passed = series?.passed ?? [];
  const refused = series?.refused ?? [];
  const highest = passed.reduce((most, value, at) => Math.max(most, value + (refused[at] ?? 0)), 0);
  if (highest === 0) return <span class="spark dim">–</span>;
  const x = (at: number): number => ((STEPS - passed.length + at) / STEPS) * WIDTH;
  const y = (value: number): number => HEIGHT - 1 - (value / highest) * (HEIGHT - 3);
  const bars = (from: (at: number) => number, to: (at: number) => number): string =>
    passed
      .map((_, at) =>
        to(at) > from(at) ? `M${x(at).toFixed(1)} ${y(from(at)).toFixed(1)}V${y(to(at)).toFixed(1)}` : '',
      )
      .join('');
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <path class="spark-axis" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
      <path
        class="spark-passed"
        d={bars(
          () => 0,
          (at) => passed[at] ?? 0,
        )}
      />
      <path
        class="spark-refused"
        d={bars(
          (at) => passed[at] ?? 0,
          (at) => (passed[at] ?? 0) + (refused[at] ?? 0),
        )}
      />
    </svg>
  );
}
