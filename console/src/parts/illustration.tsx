import { useState } from 'preact/hooks';
import type { LimitJson } from '../../../src/edge/listing/shapes.ts';
import { get } from '../api.ts';
import { algorithmText, duration, exact } from '../format.ts';
import { Failure } from './texts.tsx';
import { usePoll } from './use-poll.ts';

const WIDTH = 720;
const HEIGHT = 160;
const BASE = 136;
const TOP = 16;
const BAR = 8;

interface IllustrationProps {
  readonly path: string;
  /** The index of the limit in its rule. */
  readonly at: number;
  readonly limit: LimitJson;
}

/** How a limit decides about example requests, drawn when it is opened. */
export function Illustration({ path, at, limit }: IllustrationProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>How a {algorithmText(limit.algorithm)} decides</summary>
      {isOpen && <Example path={path} at={at} />}
    </details>
  );
}

function Example({ path, at }: Omit<IllustrationProps, 'limit'>) {
  const { data, error } = usePoll(() => get('rules/illustration', { rule: path, limit: String(at) }), [path, at]);
  if (!data) return <Failure message={error?.message} />;
  const { windowMs, windows, capacity, hits, arrivals } = data;
  const highest = Math.max(capacity, ...arrivals.map(({ before }) => before + hits));
  const x = (atMs: number): number => (atMs / (windows * windowMs)) * WIDTH;
  const height = (value: number): number => (value / highest) * (BASE - TOP);
  const passed = arrivals.filter((one) => one.passed).length;
  const limitY = BASE - height(capacity);
  return (
    <figure class="drawing wide-drawing">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`Of ${arrivals.length} requests of ${exact(hits)} hits each, ${passed} pass.`}
      >
        {Array.from({ length: windows }, (_, window) => (
          <g key={window}>
            <line class="axis" x1={x(window * windowMs)} x2={x(window * windowMs)} y1={TOP} y2={BASE} />
            <text x={x(window * windowMs) + 4} y={HEIGHT - 8}>
              {window === 0 ? '0' : duration(window * windowMs)}
            </text>
          </g>
        ))}
        <line class="axis" x1="0" x2={WIDTH} y1={BASE} y2={BASE} />
        {arrivals.map(({ atMs, before, passed: isPassed }) => (
          <g key={atMs}>
            <rect class="used" x={x(atMs)} y={BASE - height(before)} width={BAR} height={height(before)} />
            <rect
              class={isPassed ? 'request' : 'over'}
              x={x(atMs)}
              y={BASE - height(before + hits)}
              width={BAR}
              height={height(hits)}
            />
          </g>
        ))}
        <line class="limit-line" x1="0" x2={WIDTH} y1={limitY} y2={limitY} />
        <text x="4" y={limitY - 4}>
          {exact(capacity)}
        </text>
      </svg>
      <figcaption class="dim">
        Each bar is a request of {exact(hits)} {hits === 1 ? 'hit' : 'hits'}: grey is what the counter had used before,
        green a request that passes, red one that is refused.
      </figcaption>
    </figure>
  );
}
