import { algorithmFor, type Limit } from '../../algorithms/index.ts';
import type { Operation } from '../backend.ts';
import type { PackedNumbers } from './packed-numbers.ts';

/**
 * Independent spends of the same number of hits under one limit. They come before all other operations on their
 * counters. Operations are numbered through all requests of the batch.
 */
export interface Run {
  readonly limit: Limit;
  readonly hits: number;
  /** For each counter: its place among the keys. */
  readonly places: readonly number[];
  /** For each counter: the number of its first spend. */
  readonly spends: readonly number[];
  /** For each counter with several spends: the numbers of all of them. */
  readonly repeated: readonly (readonly number[] | undefined)[];
  /** The number of counters with several spends. */
  readonly repeatedCount: number;
}

class OpenRun implements Run {
  readonly limit: Limit;
  readonly hits: number;
  /** In the table of limits. */
  readonly limitPlace: number;
  /** Whether this process computes the same windows as the script, despite any clock difference. */
  readonly mayRepeat: boolean;
  readonly places: number[] = [];
  readonly spends: number[] = [];
  readonly repeated: (number[] | undefined)[] = [];
  repeatedCount = 0;

  constructor({ limit, hits }: Operation, limitPlace: number) {
    this.limit = limit;
    this.hits = hits;
    this.limitPlace = limitPlace;
    this.mayRepeat = algorithmFor(limit).canReplay?.(limit) ?? true;
  }

  /** @returns the position of the counter in the run */
  add(keyPlace: number, number: number): number {
    this.spends.push(number);
    return this.places.push(keyPlace) - 1;
  }

  repeat(at: number, number: number): void {
    const known = this.repeated[at];
    if (known) known.push(number);
    else {
      this.repeated[at] = [this.spends[at] as number, number];
      this.repeatedCount++;
    }
  }

  pack(into: PackedNumbers): void {
    const { places, repeated } = this;
    into.add(this.limitPlace);
    into.add(this.hits);
    into.add(places.length - this.repeatedCount);
    into.add(this.repeatedCount);
    if (this.repeatedCount === 0) return into.addAll(places);
    for (let at = 0; at < places.length; at++) if (!repeated[at]) into.add(places[at] as number);
    for (const [at, spends] of repeated.entries()) if (spends) into.addAll([places[at] as number, spends.length]);
  }
}

/** The position of a counter that can join no run any more. */
const CLOSED = -1;

/** The runs of a batch: one for each limit, with the number of hits of the limit's first spend. */
export class Runs {
  readonly all: OpenRun[] = [];
  /** By the limit's place. */
  readonly #byLimit: (OpenRun | undefined)[] = [];
  /** For each key, by its place: the run that it is in. */
  readonly #runs: (OpenRun | undefined)[] = [];
  /** For each key: its position in the run, or `CLOSED`. */
  readonly #positions: (number | undefined)[] = [];

  /** @returns false if the operation differs from the spends of its counter's run */
  repeat({ limit, hits }: Operation, keyPlace: number, number: number): boolean {
    const run = this.#runs[keyPlace];
    const position = this.#positions[keyPlace];
    if (!run || position === undefined || position === CLOSED) return false;
    if (run.limit !== limit || run.hits !== hits || !run.mayRepeat) return false;
    run.repeat(position, number);
    return true;
  }

  /** @returns false if the batch already uses the counter, or the limit's run has another number of hits */
  join(operation: Operation, keyPlace: number, limitPlace: number, number: number): boolean {
    if (this.#positions[keyPlace] !== undefined) return false;
    const run = this.#byLimit[limitPlace] ?? this.#begin(operation, limitPlace);
    if (run.hits !== operation.hits) return false;
    this.#runs[keyPlace] = run;
    this.#positions[keyPlace] = run.add(keyPlace, number);
    return true;
  }

  /** Another operation uses the counter: later spends must keep their order after it. */
  close(keyPlace: number): void {
    this.#positions[keyPlace] = CLOSED;
  }

  pack(into: PackedNumbers): void {
    into.add(this.all.length);
    for (const run of this.all) run.pack(into);
  }

  #begin(operation: Operation, limitPlace: number): OpenRun {
    const run = new OpenRun(operation, limitPlace);
    this.#byLimit[limitPlace] = run;
    this.all.push(run);
    return run;
  }
}
