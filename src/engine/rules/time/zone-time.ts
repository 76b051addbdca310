import { DateTime, IANAZone } from 'luxon';
import { DATE_TIME } from '../read/limit-keys.ts';

const HOUR_MS = 3_600_000;
/** Maximum offset of any clock from UTC. */
const MOST_OFFSET_MS = 16 * HOUR_MS;

/** The local clock of a time zone. A reading is the milliseconds since the epoch at which UTC shows the same. */
export interface WallClock {
  readonly timeZone: string;
  /** The local time at a moment. */
  at(ms: number): number;
  /** The first moment at which the clock shows that time or, if it skips that time, a later one. */
  firstAt(wallMs: number): number;
  /** The first clock change after one moment, up to another, if any. */
  nextMove(afterMs: number, toMs: number): number | undefined;
}

const clocks = new Map<string, WallClock>();

/** @param timeZone  valid for `isTimeZone` */
export function wallClock(timeZone: string): WallClock {
  const known = clocks.get(timeZone);
  if (known) return known;
  const clock = createWallClock(timeZone);
  clocks.set(timeZone, clock);
  return clock;
}

function createWallClock(timeZone: string): WallClock {
  const { offsetMs, nextMove } = timeZone === 'UTC' ? neverMoved : new Offsets(IANAZone.create(timeZone));
  return {
    timeZone,
    at: (ms) => ms + offsetMs(ms),
    nextMove,
    firstAt(wallMs) {
      for (let ms = wallMs - MOST_OFFSET_MS; ; ) {
        const reachedMs = wallMs - offsetMs(ms);
        const movedMs = nextMove(ms, reachedMs);
        if (movedMs === undefined) return reachedMs;
        if (movedMs + offsetMs(movedMs) >= wallMs) return movedMs; // the clock skips the time
        ms = movedMs;
      }
    },
  };
}

const pattern = new RegExp(DATE_TIME);

interface WrittenTime {
  readonly atMs: number;
  /** The local time then or, if the clock skips the written time, the written time. */
  readonly wallMs: number;
}

/**
 * Reads a date with a time of day; undefined if it is invalid.
 *
 * @param written  `2026-11-27T00:00`, local to the clock, or `2026-11-27T00:00+01:00`
 */
export function readTime(written: string, clock: WallClock): WrittenTime | undefined {
  if (!pattern.test(written)) return undefined;
  const read = DateTime.fromISO(written, { zone: 'utc', setZone: false });
  if (!read.isValid) return undefined;
  const ms = read.toMillis();
  const hasOffset = !/T\d\d:\d\d(:\d\d)?$/.test(written);
  return hasOffset ? { atMs: ms, wallMs: clock.at(ms) } : { atMs: clock.firstAt(ms), wallMs: ms };
}

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/** Maximum number of days cached for a time zone, almost three years. */
const MAX_DAYS = 1_024;

/** The offset of a clock from UTC, and when it changes. Times are milliseconds since the epoch. */
interface ClockOffsets {
  offsetMs(ms: number): number;
  /** The first clock change after one moment, up to another, if any. */
  nextMove(afterMs: number, toMs: number): number | undefined;
}

/** A clock in UTC. */
const neverMoved: ClockOffsets = { offsetMs: () => 0, nextMove: () => undefined };

/** The offset at the first moment of a day in UTC, and the clock changes until the next day, each with its offset. */
interface Day {
  readonly offsetMs: number;
  readonly moves: readonly { readonly atMs: number; readonly offsetMs: number }[];
}

/**
 * The offsets of a time zone. Queries to the calendar are slow, so days are cached, and a day is only searched if the
 * offset differs between its start and its end: no zone has changed its clock forth and back within three days.
 */
class Offsets implements ClockOffsets {
  readonly #zone: Pick<IANAZone, 'offset'>;
  readonly #days = new Map<number, Day>();

  constructor(zone: Pick<IANAZone, 'offset'>) {
    this.#zone = zone;
  }

  readonly offsetMs = (ms: number): number => {
    const { offsetMs, moves } = this.#findDay(Math.floor(ms / DAY_MS));
    return moves.findLast(({ atMs }) => atMs <= ms)?.offsetMs ?? offsetMs;
  };

  readonly nextMove = (afterMs: number, toMs: number): number | undefined => {
    for (let day = Math.floor(afterMs / DAY_MS); day * DAY_MS <= toMs; day++) {
      const move = this.#findDay(day).moves.find(({ atMs }) => atMs > afterMs);
      if (move) return move.atMs <= toMs ? move.atMs : undefined;
    }
    return undefined;
  };

  #findDay(day: number): Day {
    const known = this.#days.get(day);
    if (known) return known;
    const [startMs, endMs] = [day * DAY_MS, (day + 1) * DAY_MS];
    const offsetMs = this.#ask(startMs);
    const found = { offsetMs, moves: [...this.#findMoves(startMs, endMs, offsetMs)] };
    if (this.#days.size >= MAX_DAYS) this.#days.clear();
    this.#days.set(day, found);
    return found;
  }

  *#findMoves(startMs: number, endMs: number, startOffsetMs: number): Iterable<Day['moves'][number]> {
    const endOffsetMs = this.#ask(endMs);
    let offsetMs = startOffsetMs;
    for (let fromMs = startMs; offsetMs !== endOffsetMs; ) {
      let high = endMs;
      while (high - fromMs > 1) {
        const middle = Math.floor((fromMs + high) / 2);
        if (this.#ask(middle) === offsetMs) fromMs = middle;
        else high = middle;
      }
      offsetMs = high === endMs ? endOffsetMs : this.#ask(high);
      fromMs = high;
      yield { atMs: high, offsetMs };
    }
  }

  #ask(ms: number): number {
    return Math.round(this.#zone.offset(ms) * MINUTE_MS);
  }
}
