import type { CounterState } from '../../../src/parts/lab/answers/counters.ts';
import { exact, millis } from '../format.ts';

interface AdaptedProps {
  readonly adapted: NonNullable<CounterState['adapted']>;
}

/** What an adaptive limit was estimated from, and why it changed last. */
export function Adapted({ adapted }: AdaptedProps) {
  const { limit, why, holdMs, baselineMs } = adapted;
  return (
    <section class="shared-limit" aria-label="Adaptive limit">
      <p>
        Limit now: <strong>{exact(limit)}</strong> slots, <span class="dim">{why}.</span>
      </p>
      {baselineMs > 0 && holdMs > 0 ? (
        <figure class="drawing">
          <HoldTimes holdMs={holdMs} baselineMs={baselineMs} />
          <figcaption class="dim">
            Held for {millis(holdMs)} on average in the last window, {ratio.format(holdMs / baselineMs)} × the{' '}
            {millis(baselineMs)} without a queue (line).
          </figcaption>
        </figure>
      ) : (
        <p class="dim">
          {holdMs > 0 ? `Held for ${millis(holdMs)} on average in the last window.` : 'No hold times are measured yet.'}
        </p>
      )}
    </section>
  );
}

const ratio = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

const WIDTH = 320;
const HEIGHT = 16;
/** The shortest bar, as a multiple of the baseline. */
const SHOWN = 2;

/** The mean hold time, up to the baseline and beyond it. */
function HoldTimes({ holdMs, baselineMs }: { readonly holdMs: number; readonly baselineMs: number }) {
  const scale = (WIDTH - 2) / Math.max(holdMs, SHOWN * baselineMs);
  const line = 1 + baselineMs * scale;
  const end = 1 + holdMs * scale;
  const text = `Hold time: ${millis(holdMs)}, without a queue ${millis(baselineMs)}`;
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={text}>
      <rect class="room" x="1" y="2" width={WIDTH - 2} height={HEIGHT - 4} />
      <rect class="used" x="1" y="2" width={Math.min(end, line) - 1} height={HEIGHT - 4} />
      {end > line && <rect class="borrowed" x={line} y="2" width={end - line} height={HEIGHT - 4} />}
      <line class="limit-line" x1={line} x2={line} y1="0" y2={HEIGHT} />
    </svg>
  );
}
