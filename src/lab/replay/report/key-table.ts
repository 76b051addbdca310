import type { KeyBudget } from '../key-figures.ts';
import { outcomeOf, type RequestOutcome } from './time-axis.ts';

/** The requests and refusals of one key. */
export interface KeyRow {
  requests: number;
  /** Refusals by the rules before and after the change. */
  before: number;
  after: number;
  /** The most hits within one window of the rule, admitted or not; windows begin at multiples of their length. */
  busiest: number;
  window: number;
  windowHits: number;
}

/** The keys of a rule, up to a maximum. */
export class KeyTable {
  readonly rows = new Map<string, KeyRow>();
  /** Requests of keys beyond the budget. */
  untracked = 0;
  readonly #budget: KeyBudget;

  constructor(budget: KeyBudget) {
    this.#budget = budget;
  }

  /** @param name  identifies the key */
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
