import type { StandingOverride } from '../../engine/decide/overrides.ts';

/**
 * A recording: files of JSON lines. The first line of each file is a `RecordingHeader`; the others are a `RequestLine`,
 * which is the body of `/json` with more fields, or an event between two requests.
 */

export const RECORDING_VERSION = 1;

/** The first line of a file. */
export interface RecordingHeader {
  readonly recording: {
    readonly version: number;
    /** Names the process that recorded; differs after each start. */
    readonly stream: string;
    /** The number of the file in the stream, from 1. */
    readonly part: number;
    /** The fraction of all counters whose requests are recorded, above 0 and up to 1. */
    readonly sample: number;
    /** Values that no rule names are replaced by hashes. */
    readonly hashed: boolean;
    /** The digest of the rules in force: see `matchDigest`. */
    readonly rules: string;
    /** The settings that affect decisions, by name. */
    readonly settings: RecordedSettings;
  };
}

export interface RecordedSettings {
  readonly BACKEND_TYPE: string;
  readonly SPEND: string;
  readonly SHADOW_MODE: boolean;
  readonly QUOTA_MODE: boolean;
}

/** The fields of a line besides those of the request. */
export interface RequestLineFields {
  /** Milliseconds since the epoch, by the clock that decided. */
  readonly time: number;
  /** The time left until the caller's deadline; absent: it had none. */
  readonly timeoutMs?: number;
  readonly answer: {
    readonly code: 'OK' | 'OVER_LIMIT';
    /** One for each descriptor, as in the protocol's response. */
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

/** The operators' overrides of single descriptors from now on. */
export interface OverridesLine {
  readonly overrides: readonly StandingOverride[];
}

/** Requests that were not recorded since the last such line, because there were too many at once. */
export interface DroppedLine {
  readonly dropped: number;
}

/** The rules change here. */
export interface RulesLine {
  readonly rulesChanged: {
    /** See `matchDigest`. */
    readonly digest: string;
  };
}
