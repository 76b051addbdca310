/** Widths of a column in ms, each a multiple of the previous one. */
const WIDTHS_MS = [
  ...[100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000],
  ...[43_200_000, 86_400_000, 604_800_000, 6_048_000_000, 60_480_000_000],
] as const;

/** Maximum number of columns in a plot. */
const MAX_COLUMNS = 180;

/** The outcome of a request under the rules before and after. If nothing is compared, both are the same. */
export type RequestOutcome = 'passed' | 'spared' | 'newly_refused' | 'refused';
export const outcomes = ['passed', 'spared', 'newly_refused', 'refused'] as const satisfies readonly RequestOutcome[];

/** Numbers of requests or keys, by outcome. */
export type OutcomeCounts = Record<RequestOutcome, number>;

export const noOutcomes = (): OutcomeCounts => ({ passed: 0, spared: 0, newly_refused: 0, refused: 0 });

export const sumOutcomes = (counts: Readonly<OutcomeCounts>, of: readonly RequestOutcome[] = outcomes): number =>
  of.reduce((sum, outcome) => sum + counts[outcome], 0);

/** Adds the second numbers to the first. */
export function addOutcomes(to: OutcomeCounts, more: Readonly<OutcomeCounts>): void {
  for (const outcome of outcomes) to[outcome] += more[outcome];
}

export const compareOutcomes = (refusedBefore: boolean, refusedAfter: boolean): RequestOutcome =>
  refusedBefore ? (refusedAfter ? 'refused' : 'spared') : refusedAfter ? 'newly_refused' : 'passed';

/** Columns of time, shared by any number of series, which widen as time passes. Time never runs backwards. */
export class TimeAxis {
  #level = 0;
  #firstMs: number | undefined;
  #lastMs = 0;

  /** Number of times that the columns have widened. */
  get level(): number {
    return this.#level;
  }

  get columnMs(): number {
    return widthAt(this.#level);
  }

  /** The number of a column, counted from the epoch. */
  columnAt(timeMs: number): number {
    return Math.floor(timeMs / this.columnMs);
  }

  reach(timeMs: number): void {
    this.#firstMs ??= timeMs;
    this.#lastMs = timeMs;
    while (this.columnAt(timeMs) - this.columnAt(this.#firstMs) >= MAX_COLUMNS && this.#level < WIDTHS_MS.length - 1)
      this.#level++;
  }

  /** The range of columns from the first to the last time. */
  get columns(): { readonly first: number; readonly count: number } {
    const first = this.columnAt(this.#firstMs ?? 0);
    return { first, count: this.columnAt(this.#lastMs) - first + 1 };
  }
}

const widthAt = (level: number): number => WIDTHS_MS[level] ?? WIDTHS_MS[0];

/** Outcomes by column of an axis. */
export class OutcomeSeries {
  readonly #axis: TimeAxis;
  #level: number;
  #columns = new Map<number, OutcomeCounts>();

  constructor(axis: TimeAxis) {
    this.#axis = axis;
    this.#level = axis.level;
  }

  /** @param timeMs  time that the axis has reached */
  add(timeMs: number, outcome: RequestOutcome): void {
    this.#widen();
    const at = this.#axis.columnAt(timeMs);
    const column = this.#columns.get(at) ?? noOutcomes();
    column[outcome]++;
    this.#columns.set(at, column);
  }

  /** One item for each column of the axis. */
  columns(): readonly Readonly<OutcomeCounts>[] {
    this.#widen();
    const { first, count } = this.#axis.columns;
    return Array.from({ length: count }, (_, at) => this.#columns.get(first + at) ?? noOutcomes());
  }

  #widen(): void {
    if (this.#level === this.#axis.level) return;
    const factor = this.#axis.columnMs / widthAt(this.#level);
    const wide = new Map<number, OutcomeCounts>();
    for (const [narrow, column] of this.#columns) {
      const at = Math.floor(narrow / factor);
      const sum = wide.get(at);
      if (sum) addOutcomes(sum, column);
      else wide.set(at, column);
    }
    this.#columns = wide;
    this.#level = this.#axis.level;
  }
}
