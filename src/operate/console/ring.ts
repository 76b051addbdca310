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

  get isFull(): boolean {
    return this.#filled === this.#rows;
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
