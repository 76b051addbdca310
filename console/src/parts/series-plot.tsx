import type { TimelineMark } from '../../../src/parts/console/answers.ts';
import { get } from '../api.ts';
import { duration, grouped } from '../format.ts';
import { history, nowMs, ruleHistory, snapshot } from '../live.ts';
import { param, replaceParams } from '../route.ts';
import { seesValues, session } from '../session.ts';
import { Choice } from './choice.tsx';
import { Plot } from './plot.tsx';
import { Descriptor, Failure, Time, Value } from './texts.tsx';
import { usePoll } from './use-poll.ts';

const ranges = {
  '60s': { text: '60 seconds', steps: 60, stepMs: 1_000, pollMs: undefined },
  '10m': { text: '10 minutes', steps: 60, stepMs: 10_000, pollMs: 5_000 },
  '1h': { text: '1 hour', steps: 120, stepMs: 30_000, pollMs: 15_000 },
  '24h': { text: '24 hours', steps: 144, stepMs: 600_000, pollMs: 15_000 },
  '7d': { text: '7 days', steps: 168, stepMs: 3_600_000, pollMs: 60_000 },
  '30d': { text: '30 days', steps: 180, stepMs: 14_400_000, pollMs: 60_000 },
} as const;
type RangeName = keyof typeof ranges;
const names = Object.keys(ranges) as readonly RangeName[]; // it has no other keys

/** The ranges of a plot: clients are not followed by the second, nor by Prometheus. */
function rangesFor(isOfClient: boolean): readonly RangeName[] {
  if (isOfClient) return ['10m', '1h', '24h'];
  return session.value?.hasPrometheus ? names : names.slice(0, names.indexOf('7d'));
}

export interface SeriesLine {
  readonly field: string;
  readonly label: string;
  readonly color: string;
  readonly isDashed?: boolean;
  readonly isFilled?: boolean;
  /** 0 means that nothing was measured. */
  readonly isMeasured?: boolean;
  /** A constant value; absent: the series of the field. */
  readonly constant?: number;
  /** Factor for values. Default: 1. */
  readonly times?: number;
  /** Higher values are shown as this one. */
  readonly atMost?: number;
}

interface SeriesPlotProps {
  readonly title: string;
  /** Path of a rule. Default: the whole service. */
  readonly rule?: string;
  /** A client that the rule refuses, as `key=value,…`. */
  readonly descriptor?: string;
  readonly lines: readonly SeriesLine[];
  readonly isStacked?: boolean;
  readonly unit: string;
  /** Changes of rules, overrides, the candidate and the store are marked. */
  readonly hasMarks?: boolean;
}

/** A plot of the service, a rule or a client over the range in the address. */
export function SeriesPlot({ title, rule, descriptor, lines, isStacked, unit, hasMarks = false }: SeriesPlotProps) {
  const offered = rangesFor(descriptor !== undefined);
  const range = offered.find((name) => name === param('range')) ?? offered[0] ?? '60s';
  const { steps, stepMs, pollMs } = ranges[range];
  const polled = usePoll(
    () => get('series', { range, rule, descriptor }),
    pollMs === undefined ? undefined : [range, rule, descriptor],
    pollMs,
  );
  const live = rule === undefined ? history.value : (ruleHistory.value.get(rule) ?? {});
  const series = range === '60s' ? live : (polled.data?.series ?? {});
  const endMs = range === '60s' ? (snapshot.value?.atMs ?? nowMs.value) : nowMs.value;
  const coveredMs = steps * stepMs;
  const beginsAtMs = polled.data?.beginsAtMs ?? snapshot.value?.startedAtMs ?? nowMs.value;
  const timeline = usePoll(
    () => get('timeline', { rule, descriptor }),
    hasMarks ? [seesValues.value, rule, descriptor] : undefined,
    3_000,
  );
  const marks = (timeline.data?.marks ?? []).filter(({ atMs }) => atMs > endMs - coveredMs).slice(-MAX_MARKS);
  return (
    <>
      <div class="row">
        <h2>{title}</h2>
        <Choice
          of={`Range of ${title}`}
          names={offered}
          texts={ranges}
          chosen={range}
          onChoose={(name) => replaceParams({ range: name === offered[0] ? undefined : name })}
        />
      </div>
      <Plot
        title={title}
        lines={lines.map(({ field, constant, times = 1, atMost = Number.POSITIVE_INFINITY, ...line }) => ({
          ...line,
          values:
            constant === undefined
              ? (series[field] ?? []).map((value) => Math.min(value * times, atMost))
              : new Array<number>(steps).fill(constant),
        }))}
        isStacked={isStacked ?? false}
        endMs={endMs}
        stepMs={stepMs}
        steps={steps}
        unit={unit}
        marks={marks.map(({ atMs }) => atMs)}
      />
      <Marks marks={marks} />
      <Failure message={polled.error?.message ?? polled.data?.problem} />
      {beginsAtMs > endMs - coveredMs && (
        <p class="dim">
          {polled.data?.source === 'prometheus'
            ? 'History is read from Prometheus, and begins '
            : 'History is kept in memory, and begins with the process, '}
          {duration(Math.max(endMs - beginsAtMs, 1_000))} ago.
        </p>
      )}
    </>
  );
}

/** The most changes that are marked. */
const MAX_MARKS = 9;

function Marks({ marks }: { readonly marks: readonly TimelineMark[] }) {
  if (marks.length === 0) return null;
  return (
    <ol class="marks" aria-label="Changes">
      {marks.map(({ atMs, text, entries }, at) => (
        <li key={`${atMs} ${at}`}>
          <Time atMs={atMs} /> <Value text={grouped(text)} /> {entries && <Descriptor entries={entries} />}
        </li>
      ))}
    </ol>
  );
}
