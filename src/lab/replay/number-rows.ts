const FIRST_ROWS = 16;

/** Rows of numbers in one block of memory: an object per row would take several times as much. */
export class NumberRows {
  readonly #width: number;
  readonly #free: number[] = [];
  #end = 0;
  /** `add` may replace the array. */
  values = new Float64Array(0);

  /** @param width  the number of numbers in a row */
  constructor(width: number) {
    this.#width = width;
  }

  /** @returns the index of the new row's first number; its numbers are 0 */
  add(): number {
    const freed = this.#free.pop();
    if (freed !== undefined) return freed;
    const row = this.#end;
    this.#end += this.#width;
    if (this.#end > this.values.length) {
      const larger = new Float64Array(Math.max(FIRST_ROWS * this.#width, 2 * this.values.length));
      larger.set(this.values);
      this.values = larger;
    }
    return row;
  }

  /** Frees the row; a later `add` may reuse it. */
  remove(row: number): void {
    this.values.fill(0, row, row + this.#width);
    this.#free.push(row);
  }
}
