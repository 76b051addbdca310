import type { KeyBudget } from '../key-figures.ts';
import { outcomeOf, type RequestOutcome } from './time-axis.ts';

/** What one key asked for, and was refused. */
export interface KeyRow {
  requests: number;
  /** Refusals by the rules before, and by those after. */
  before: number;
  after: number;
  /** The most hits within one window of the rule, whether they passed or not; windows begin at multiples of it. */
  busiest: number;
  window: number;
  windowHits: number;
}

/** The keys of a rule, up to a number of them. */
export class KeyTable {
  readonly rows = new Map<string, KeyRow>();
  /** Requests of keys beyond the budget. */
  untracked = 0;
  readonly #budget: KeyBudget;

  constructor(budget: KeyBudget) {
    this.#budget = budget;
  }

  /** @param name  of the key; only called for a new one */
  add(
    name: string,
    hits: number,
    window: number,
    refused: { readonly before: boolean; readonly after: boolean },
  ): void {
    let row = this.rows.get(name);
    if (!row) {
      if (this.#budget.left <= 0) {
        this.untracked++;
        return;
      }
      this.#budget.left--;
      row = { requests: 0, before: 0, after: 0, busiest: 0, window, windowHits: 0 };
      this.rows.set(name, row);
    }
    row.requests++;
    if (refused.before) row.before++;
    if (refused.after) row.after++;
    if (row.window !== window) {
      row.window = window;
      row.windowHits = 0;
    }
    row.windowHits += hits;
    if (row.windowHits > row.busiest) row.busiest = row.windowHits;
  }
}

export const outcomeOfKey = ({ before, after }: KeyRow): RequestOutcome => outcomeOf(before > 0, after > 0);
