import type { StateDrawing } from '../../../src/parts/lab/answers/explain.ts';
import { amount, duration, exact } from '../format.ts';

const WIDTH = 320;
const HEIGHT = 48;
const BASE = 40;
const TOP = 4;

interface DrawingProps {
  readonly drawing: StateDrawing;
  readonly used: number;
  readonly hits: number;
  readonly isOver: boolean;
  readonly resetsInMs: number;
  /** Hits on hold, which are part of those used. */
  readonly onHold?: number | undefined;
  /** Age of the oldest request in flight. */
  readonly oldestMs?: number | undefined;
  /** Of a budget, whose hits are billionths of it. */
  readonly currency?: string | undefined;
  /** The alternative text for screen readers. */
  readonly text: string;
}

/** A counter as its algorithm stores it: the used hits, then those of the request, against the limit. */
export function Drawing(props: DrawingProps) {
  const { drawing, text } = props;
  return (
    <figure class="drawing">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={text}>
        {drawing.kind === 'ticks' ? (
          <Ticks drawing={drawing} />
        ) : drawing.kind === 'parts' && drawing.parts.length > 2 ? (
          <Bars drawing={drawing} />
        ) : (
          <Levels {...props} />
        )}
      </svg>
      <figcaption class="dim">{captionOf(props)}</figcaption>
    </figure>
  );
}

/** One bar: the used hits in their parts, then the request. It is cut off far beyond the limit. */
function Levels({ drawing, used, hits, isOver }: DrawingProps) {
  const { capacity } = drawing;
  const parts = drawing.kind === 'parts' ? drawing.parts : [Math.min(used, capacity)];
  const beyond = drawing.kind === 'parts' ? 0 : Math.max(used - capacity, 0);
  const total = Math.max(capacity, Math.min(used + hits, MOST_SHOWN * capacity), 1);
  const x = (value: number): number => (Math.min(value, total) / total) * (WIDTH - 2) + 1;
  const widths = [
    ...parts.map((value, at) => ({ value, name: at === 0 && parts.length > 1 ? 'older' : 'used' })),
    { value: beyond, name: 'beyond' },
    { value: hits, name: isOver ? 'over' : 'request' },
  ];
  let from = 0;
  const bars = widths.map(({ value, name }) => {
    const start = from;
    from += value;
    return { start, end: from, name };
  });
  return (
    <>
      <rect class="room" x="1" y={TOP} width={x(capacity) - 1} height={BASE - TOP} />
      {bars.map(({ start, end, name }) => (
        <rect
          key={`${name} ${start}`}
          class={name}
          x={x(start)}
          y={TOP}
          width={Math.max(x(end) - x(start), 0)}
          height={BASE - TOP}
        />
      ))}
      <line class="limit-line" x1={x(capacity)} x2={x(capacity)} y1="0" y2={BASE + 4} />
    </>
  );
}

/** The end of the bar, as a multiple of the limit. */
const MOST_SHOWN = 1.5;

/** A bar for each part of the window. */
function Bars({ drawing }: { readonly drawing: Extract<StateDrawing, { kind: 'parts' }> }) {
  const { parts } = drawing;
  const highest = Math.max(...parts, 1);
  const width = (WIDTH - 2) / parts.length;
  return (
    <>
      <line class="axis" x1="0" x2={WIDTH} y1={BASE} y2={BASE} />
      {parts.map((value, at) => {
        const height = (value / highest) * (BASE - TOP);
        return (
          <rect
            key={at}
            class={at === parts.length - 1 ? 'used' : 'older'}
            x={1 + at * width}
            y={BASE - height}
            width={Math.max(width - 1, 1)}
            height={height}
          />
        );
      })}
    </>
  );
}

/** A tick for each hit in the window, the newest at the right. */
function Ticks({ drawing }: { readonly drawing: Extract<StateDrawing, { kind: 'ticks' }> }) {
  const { ticks, windowMs } = drawing;
  const highest = Math.max(...ticks.map(([, hits]) => hits), 1);
  return (
    <>
      <line class="axis" x1="0" x2={WIDTH} y1={BASE} y2={BASE} />
      {ticks.map(([agoMs, hits], at) => {
        const x = (1 - agoMs / windowMs) * (WIDTH - 4) + 2;
        return (
          <line
            key={at}
            class="tick"
            x1={x}
            x2={x}
            y1={BASE}
            y2={BASE - Math.max((hits / highest) * (BASE - TOP), 6)}
          />
        );
      })}
    </>
  );
}

const oldestText = (oldestMs: number, ttlMs: number): string =>
  oldestMs === 0 ? '' : `; the oldest for ${duration(oldestMs)} of a ttl of ${duration(ttlMs)}`;

function captionOf({ drawing, used, hits, resetsInMs, onHold = 0, oldestMs = 0, currency }: DrawingProps): string {
  const count = (value: number): string => amount(value, currency);
  const request = currency !== undefined ? count(hits) : hits === 1 ? '1 hit' : `${exact(hits)} hits`;
  const held = onHold === 0 ? '' : ` (${count(onHold)} on hold)`;
  const of = `${count(used)} of ${count(drawing.capacity)} used${held}, ${request} requested`;
  switch (drawing.kind) {
    case 'level':
      return resetsInMs > 0 ? `Bucket: ${of}; empty in ${duration(resetsInMs)}` : of;
    case 'slots':
      return `${exact(used)} of ${exact(drawing.capacity)} slots in use, ${exact(hits)} requested${oldestText(oldestMs, drawing.ttlMs)}`;
    case 'window':
      return `Window of ${duration(drawing.windowMs)}: ${of}; ${resetsInMs > 0 ? `restarts in ${duration(resetsInMs)}` : 'not begun'}`;
    case 'parts':
      return drawing.parts.length > 2
        ? `${drawing.parts.length} parts of the window: ${of}`
        : `Share of the previous window, then this one: ${of}`;
    case 'ticks':
      return `Hits of the last ${duration(drawing.windowMs)}: ${of}`;
  }
}
