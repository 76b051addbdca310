import type { StandingOverride } from '../overrides.ts';

/**
 * A recording: files of JSON lines. The first line of each file is a `RecordingHeader`; the others are a
 * `RequestLine`, which is the body of `/json` with more fields, or something that happened between two requests.
 */

export const RECORDING_VERSION = 1;

/** The first line of a file. */
export interface RecordingHeader {
  readonly recording: {
    readonly version: number;
    /** Names the process that recorded; another one after each start. */
    readonly stream: string;
    /** Of the stream's files, from 1. */
    readonly part: number;
    /** The part of all counters whose requests are recorded, above 0 and up to 1. */
    readonly sample: number;
    /** Values that no rule names are hashes. */
    readonly hashed: boolean;
    /** Of the rules in force: see `matchDigest`. */
    readonly rules: string;
    /** What decides besides the rules, by the names of the settings. */
    readonly settings: RecordedSettings;
  };
}

export interface RecordedSettings {
  readonly BACKEND_TYPE: string;
  readonly SPEND: string;
  readonly SHADOW_MODE: boolean;
  readonly QUOTA_MODE: boolean;
}

/** What is beside the request in its line. */
export interface RequestLineFields {
  /** Milliseconds since the epoch, by the clock that decided. */
  readonly time: number;
  /** What was left of the caller's deadline; absent: it had none. */
  readonly timeoutMs?: number;
  readonly answer: {
    readonly code: 'OK' | 'OVER_LIMIT';
    /** One a descriptor, as the protocol says it. */
    readonly descriptors: readonly LineDescriptor[];
  };
  /** Some values are hashes. */
  readonly hashed?: true;
}

export interface LineDescriptor {
  readonly code: 'OK' | 'OVER_LIMIT';
  readonly remaining: number;
  /** The path of the rule that matched; absent: none did. */
  readonly rule?: string;
}

/** What operators have set for single descriptors, from now on. */
export interface OverridesLine {
  readonly overrides: readonly StandingOverride[];
}

/** Requests that were not recorded since the last such line: too many at once. */
export interface DroppedLine {
  readonly dropped: number;
}

/** Other rules decide from now on. */
export interface RulesLine {
  readonly rulesChanged: {
    /** See `matchDigest`. */
    readonly digest: string;
  };
}
