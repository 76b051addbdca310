/** The step of each range, and the number of steps. */
export const ranges = {
  '60s': { stepMs: 1_000, rows: 60 },
  '10m': { stepMs: 10_000, rows: 60 },
  '1h': { stepMs: 30_000, rows: 120 },
  '24h': { stepMs: 600_000, rows: 144 },
} as const;
export type Range = keyof typeof ranges;
export const rangeNames = Object.keys(ranges) as readonly Range[]; // ranges has no other keys

/** How the rows of a step are merged: rates are averaged; latencies and used parts keep their maximum. */
type Merge = 'mean' | 'max';

/** The rows of the last minute, ten minutes, hour and day. */
export class Series {
  readonly #merges: readonly Merge[];
  readonly #levels: readonly { readonly ring: Ring; readonly every: number; sums: Float64Array; steps: number }[];

  constructor(merges: readonly Merge[]) {
    this.#merges = merges;
    const secondMs = ranges['60s'].stepMs;
    this.#levels = rangeNames.map((name) => ({
      ring: new Ring(ranges[name].rows, merges.length),
      every: ranges[name].stepMs / secondMs,
      sums: new Float64Array(merges.length),
      steps: 0,
    }));
  }

  get bytes(): number {
    return this.#levels.reduce((sum, { ring, sums }) => sum + ring.bytes + sums.byteLength, 0);
  }

  /** To be called once a second. */
  push(row: ArrayLike<number>): void {
    for (const level of this.#levels) {
      this.#merges.forEach((merge, at) => {
        const value = row[at] ?? 0;
        const sum = level.sums[at] ?? 0;
        level.sums[at] = merge === 'max' ? Math.max(sum, value) : sum + value / level.every;
      });
      if (++level.steps < level.every) continue;
      level.ring.push(level.sums);
      level.sums.fill(0);
      level.steps = 0;
    }
  }

  column(range: Range, at: number): readonly number[] {
    return this.#levels[rangeNames.indexOf(range)]?.ring.column(at) ?? [];
  }

  /** The sum over the last minute. */
  minuteSum(at: number): number {
    return this.#levels[0]?.ring.sum(at) ?? 0;
  }
}

/** The last values of several numbers, one row for each step; a new row replaces the oldest. */
export class Ring {
  readonly #values: Float32Array;
  readonly #width: number;
  readonly #rows: number;
  #next = 0;
  #filled = 0;

  /** @param width  the number of values in a row */
  constructor(rows: number, width: number) {
    this.#values = new Float32Array(rows * width);
    this.#width = width;
    this.#rows = rows;
  }

  get bytes(): number {
    return this.#values.byteLength;
  }

  push(row: ArrayLike<number>): void {
    this.#values.set(row, this.#next * this.#width);
    this.#next = (this.#next + 1) % this.#rows;
    if (this.#filled < this.#rows) this.#filled++;
  }

  /** One column of all rows, the oldest first. */
  column(at: number): readonly number[] {
    const first = this.#next - this.#filled + this.#rows;
    return Array.from({ length: this.#filled }, (_, row) => {
      const value = this.#values[((first + row) % this.#rows) * this.#width + at] ?? 0;
      return Math.round(value * 1_000) / 1_000;
    });
  }

  /** The sum of one column. */
  sum(at: number): number {
    let sum = 0;
    for (let row = 0; row < this.#filled; row++) sum += this.#values[row * this.#width + at] ?? 0;
    return sum;
  }
}
