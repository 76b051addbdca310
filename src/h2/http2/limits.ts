/**
 * Limits of one connection, each with its consequence; `defaultLimits` has the defaults. `CallerMemory` bounds the
 * memory of all connections together.
 */
export interface Http2Limits {
  /** Open streams, plus cancelled ones whose handler is still running. More: REFUSED_STREAM. */
  readonly maxConcurrentStreams: number;
  /** Octets of a header block that spans several frames. More: ENHANCE_YOUR_CALM ends the connection. */
  readonly maxHeaderBlockBytes: number;
  /** Octets of a request's fields, plus 32 per field. More: status 431. */
  readonly maxHeaderListBytes: number;
  /** Receive window of each stream. More: FLOW_CONTROL_ERROR. */
  readonly streamWindowBytes: number;
  /** Receive window of the connection. More: FLOW_CONTROL_ERROR. */
  readonly connectionWindowBytes: number;
  /** Unsent output, in octets. More: this server stops reading until the client has caught up. */
  readonly maxUnsentBytes: number;
  /** Burst of control frames (see `Budget`). More: ENHANCE_YOUR_CALM ends the connection. */
  readonly controlFrames: number;
  /** Control frames that the budget regains per second. */
  readonly controlFramesPerSecond: number;
  /**
   * Time to complete the preface, a frame or a header block, and to read the output beyond `maxUnsentBytes`. Longer:
   * ENHANCE_YOUR_CALM ends the connection. To send the rest of a request, or to open the window for the rest of an
   * answer, a client has up to twice as long. Longer: ENHANCE_YOUR_CALM ends the stream.
   */
  readonly stallTimeoutMs: number;
}

export const defaultLimits: Http2Limits = {
  maxConcurrentStreams: 10_000,
  maxHeaderBlockBytes: 65_536,
  maxHeaderListBytes: 65_536,
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxUnsentBytes: 262_144,
  controlFrames: 10_000,
  controlFramesPerSecond: 100,
  stallTimeoutMs: 30_000,
};
