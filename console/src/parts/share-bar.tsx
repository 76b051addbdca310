const HEIGHT = 16;
/** Keeps a line at the end of the longest bar visible. */
const BAR_MARGIN = 1.01;

interface ShareBarProps {
  /** Hits of the longest bar. */
  readonly scale: number;
  readonly room: number;
  readonly used: number;
  /** What is used beyond that, and where it begins. */
  readonly more: { readonly kind: 'borrowed' | 'beyond'; readonly from: number; readonly hits: number };
  /** Undefined: there is no line. */
  readonly line: number | undefined;
  /** The alternative text for screen readers. */
  readonly text: string;
}

/** Draws a share in a table cell, with what is used within and beyond it, and a line. */
export function ShareBar({ scale, room, used, more, line, text }: ShareBarProps) {
  const wide = (hits: number): string => `${(100 * Math.max(hits, 0)) / (scale * BAR_MARGIN)}%`;
  return (
    <svg class="drawing" width="100%" height={HEIGHT} role="img" aria-label={text}>
      <rect class="room" width={wide(room)} height={HEIGHT} />
      <rect class="used" width={wide(used)} height={HEIGHT} />
      {more.hits > 0 && <rect class={more.kind} x={wide(more.from)} width={wide(more.hits)} height={HEIGHT} />}
      {line !== undefined && <line class="limit-line" x1={wide(line)} x2={wide(line)} y1="0" y2={HEIGHT} />}
    </svg>
  );
}
