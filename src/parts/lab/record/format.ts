import type { StandingOverride } from '../../../engine/decide/overrides.ts';

/**
 * A recording consists of files of JSON lines. The first line of each file is a `RecordingHeader`; the others are a
 * `RequestLine`, which is the body of `/json` with more fields, or an event between two requests.
 */

export const RECORDING_VERSION = 1;

/** The first line of a file. */
export interface RecordingHeader {
  readonly recording: {
    readonly version: number;
    /** Identity of the recording process, which differs after each start. */
    readonly stream: string;
    /** Number of the file in the stream, from 1. */
    readonly part: number;
    /** Fraction of all counters whose requests are recorded, above 0 and up to 1. */
    readonly sample: number;
    /** Whether values that no rule names are replaced by hashes. */
    readonly hashed: boolean;
    /** Digest of the current rules (`matchDigest`). */
    readonly rules: string;
    /** Settings that affect decisions, by name. */
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
  /** Time left until the caller's deadline; absent without one. */
  readonly timeoutMs?: number;
  readonly answer: {
    readonly code: RecordedCode;
    /** One for each descriptor, as in the protocol's response. */
    readonly descriptors: readonly LineDescriptor[];
  };
  /** Whether some values are hashes. */
  readonly hashed?: true;
}

export type RecordedCode = 'OK' | 'OVER_LIMIT';

export interface LineDescriptor {
  readonly code: RecordedCode;
  /** Hits that are left; 0 if no rule matched, 4,294,967,295 if the rule is unlimited. */
  readonly remaining: number;
  /** Path of the rule that matched, if any. */
  readonly rule?: string;
}

/** A line between two requests. */
export type EventLine =
  /** The operators' overrides of single descriptors from now on. */
  | { readonly overrides: readonly StandingOverride[] }
  /** Requests that were not recorded since the last such line, because their rate was too high. */
  | { readonly dropped: number }
  /** The rules changed at this position, to those with this digest (`matchDigest`). */
  | { readonly rulesChanged: { readonly digest: string } };
