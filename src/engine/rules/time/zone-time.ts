import { DateTime, IANAZone } from 'luxon';
import { DATE_TIME } from '../read/format.ts';
import { neverMoved, Offsets } from './zone-offsets.ts';

const HOUR_MS = 3_600_000;
/** No clock in the world is further from UTC. */
const MOST_OFFSET_MS = 16 * HOUR_MS;

/**
 * The local clock of a time zone. Its readings are numbers as well: milliseconds since the epoch at which a clock in
 * UTC shows the same.
 */
export interface WallClock {
  /** A name of the IANA database. */
  readonly timeZone: string;
  /** The local time at a moment. */
  at(ms: number): number;
  /** The first moment at which the clock shows that time or, if it skips that time, a later one. */
  firstAt(wallMs: number): number;
  /** The first clock change after one moment, up to another; undefined: none. */
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

/** A written date and time. */
interface WrittenTime {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** The local time then or, if the clock skips the written time, the written time. */
  readonly wallMs: number;
}

/**
 * Reads a date with a time of day; undefined: invalid.
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
