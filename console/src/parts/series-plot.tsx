import { get } from '../api.ts';
import { duration } from '../format.ts';
import { history, nowMs, ruleHistory, snapshot } from '../live.ts';
import { param, replaceParams } from '../route.ts';
import { Plot } from './plot.tsx';
import { usePoll } from './use-poll.ts';

const rangeTexts = { '60s': '60 seconds', '1h': '1 hour', '24h': '24 hours' } as const;
const steps = { '60s': 60, '1h': 120, '24h': 144 } as const;
type RangeName = keyof typeof rangeTexts;
const names = Object.keys(rangeTexts) as readonly RangeName[]; // it has no other keys

const POLL_MS = 15_000;

export const rangeOf = (): RangeName => names.find((name) => name === param('range')) ?? '60s';

export interface SeriesLine {
  readonly field: string;
  readonly label: string;
  readonly color: string;
  readonly isDashed?: boolean;
  readonly isFilled?: boolean;
  /** A constant value; absent: the series of the field. */
  readonly constant?: number;
}

/** A plot of the service or of a rule over the range in the address. */
export function SeriesPlot({
  title,
  rule,
  lines,
  unit,
}: {
  readonly title: string;
  readonly rule?: string;
  readonly lines: readonly SeriesLine[];
  readonly unit: string;
}) {
  const range = rangeOf();
  const polled = usePoll(() => get('series', { range, rule }), range === '60s' ? undefined : [range, rule], POLL_MS);
  const live = rule === undefined ? history.value : (ruleHistory.value.get(rule) ?? {});
  const series = range === '60s' ? live : (polled.data?.series ?? {});
  const stepMs = range === '60s' ? 1_000 : (polled.data?.stepMs ?? 1_000);
  const startedAtMs = snapshot.value?.startedAtMs ?? nowMs.value;
  const endMs = range === '60s' ? (snapshot.value?.atMs ?? nowMs.value) : nowMs.value;
  const runMs = endMs - startedAtMs;
  const coveredMs = steps[range] * { '60s': 1_000, '1h': 30_000, '24h': 600_000 }[range];
  return (
    <>
      <div class="row">
        <h2>{title}</h2>
        <fieldset class="choice">
          <legend class="hidden">Range of {title}</legend>
          {names.map((name) => (
            <label key={name}>
              <input
                type="radio"
                name={`range ${title}`}
                checked={name === range}
                onChange={() => replaceParams({ range: name === '60s' ? undefined : name })}
              />
              {rangeTexts[name]}
            </label>
          ))}
        </fieldset>
      </div>
      <Plot
        title={title}
        lines={lines.map(({ field, constant, ...line }) => ({
          ...line,
          values: constant === undefined ? (series[field] ?? []) : new Array<number>(steps[range]).fill(constant),
        }))}
        endMs={endMs}
        stepMs={stepMs}
        steps={steps[range]}
        unit={unit}
      />
      {runMs < coveredMs && (
        <p class="dim">
          History is kept in memory and begins when the service was started, {duration(Math.max(runMs, 1_000))} ago.
        </p>
      )}
    </>
  );
}
