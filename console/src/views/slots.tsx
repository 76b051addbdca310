import type { LimitJson } from '../../../src/edge/listing/shapes.ts';
import { duration, exact } from '../format.ts';
import { ruleHistory } from '../live.ts';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { Fact } from '../parts/texts.tsx';

const SIZE = 20;
const GAP = 4;
const IN_A_ROW = 20;
/** A larger number of slots is drawn as one bar. */
const MAX_BOXES = 60;
const WIDTH = IN_A_ROW * (SIZE + GAP) - GAP;
const BAR_HEIGHT = 12;

/** The requests in flight of a rule: its slots, the age of the oldest, and both over time. */
export function Slots({ path, limit }: { readonly path: string; readonly limit: LimitJson }) {
  const series = ruleHistory.value.get(path);
  const held = Math.round(series?.held?.at(-1) ?? 0);
  const oldestMs = held === 0 ? 0 : (series?.oldest?.at(-1) ?? 0) * 1_000;
  const expired = Math.round((series?.expired ?? []).reduce((sum, value) => sum + value, 0));
  const isAdaptive = limit.adapt !== undefined;
  const max = limit.requests_per_unit + limit.soft;
  const slots = (isAdaptive && series?.limit?.at(-1)) || max;
  const lines: readonly SeriesLine[] = [
    { field: 'held', label: 'held', color: '--passed', isFilled: true },
    isAdaptive
      ? { field: 'limit', label: 'limit', color: '--ink', isDashed: true }
      : { field: 'slots', label: 'slots', color: '--ink', isDashed: true, constant: slots },
    { field: 'expired', label: 'expired per s', color: '--bad' },
  ];
  const age = held === 0 ? '' : `, the oldest for ${duration(oldestMs)} of a ttl of ${duration(limit.window_ms)}`;
  const text = `${exact(held)} of ${exact(slots)} slots held${age}`;
  return (
    <section class="panel">
      <h2>In flight now</h2>
      <div class="slots">
        <figure class="drawing">
          {slots <= MAX_BOXES ? (
            <Boxes slots={slots} held={held} soft={limit.soft} text={text} />
          ) : (
            <Bar share={held / slots} text={text} />
          )}
          <figcaption class="dim">
            Of the counter with the most slots, as of its last request
            {isAdaptive && '; the limit is that of the counter that was used last, and may have just fallen below them'}
            .
          </figcaption>
        </figure>
        <figure class="drawing">
          <Bar share={oldestMs / limit.window_ms} text={`The oldest slot: ${duration(oldestMs)}`} isAge />
          <figcaption class="dim">Age of the oldest slot, relative to the ttl.</figcaption>
        </figure>
        <dl class="figures">
          <Fact name="Held" class="number">
            {exact(held)}{' '}
            <span class="dim">
              of {exact(slots)}
              {isAdaptive && `, at most ${exact(max)}`}
            </span>
          </Fact>
          <Fact name="Oldest" class="number">
            {held === 0 ? '–' : duration(oldestMs)} <span class="dim">of {duration(limit.window_ms)}</span>
          </Fact>
          <Fact name="Expired, last minute" class={expired > 0 ? 'number bad-text' : 'number'}>
            {exact(expired)}
          </Fact>
        </dl>
      </div>
      {expired > 0 && (
        <p class="notice warn">
          Unreleased slots expire: their holders died, requests last longer than the ttl, or the proxy sends no
          releases.
        </p>
      )}
      <SeriesPlot title="Slots" rule={path} lines={lines} unit="" />
    </section>
  );
}

interface BoxesProps {
  readonly slots: number;
  readonly held: number;
  readonly soft: number;
  readonly text: string;
}

/** A box for each slot; held ones are filled, soft ones come last. */
function Boxes({ slots, held, soft, text }: BoxesProps) {
  const height = Math.max(Math.ceil(slots / IN_A_ROW), 1) * (SIZE + GAP) - GAP;
  const classOf = (at: number): string => {
    const isSoft = at >= slots - soft;
    return at < held ? (isSoft ? 'beyond' : 'used') : 'room';
  };
  return (
    <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={text}>
      {Array.from({ length: slots }, (_, at) => (
        <rect
          key={at}
          class={classOf(at)}
          x={(at % IN_A_ROW) * (SIZE + GAP)}
          y={Math.floor(at / IN_A_ROW) * (SIZE + GAP)}
          width={SIZE}
          height={SIZE}
          rx="3"
        />
      ))}
    </svg>
  );
}

/** A slot older than this fraction of its ttl is about to expire. */
const OLD_SHARE = 0.8;

function Bar({
  share,
  text,
  isAge = false,
}: {
  readonly share: number;
  readonly text: string;
  readonly isAge?: boolean;
}) {
  const shown = Math.min(share, 1);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${BAR_HEIGHT}`} role="img" aria-label={text}>
      <rect class="room" width={WIDTH} height={BAR_HEIGHT} rx="3" />
      <rect class={isAge && share >= OLD_SHARE ? 'over' : 'used'} width={shown * WIDTH} height={BAR_HEIGHT} rx="3" />
    </svg>
  );
}
