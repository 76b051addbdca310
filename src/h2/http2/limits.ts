/** Limits of one connection, each with its consequence. `CallerMemory` bounds the memory of all of them together. */
export interface Http2Limits {
  /** Maximum open streams, plus cancelled ones whose handler is still running; further ones get REFUSED_STREAM. */
  readonly maxConcurrentStreams: number;
  /** Maximum octets of a header block that spans several frames; more end the connection with ENHANCE_YOUR_CALM. */
  readonly maxHeaderBlockBytes: number;
  /** Maximum octets of a request's fields, plus 32 per field; more are answered with status 431. */
  readonly maxHeaderListBytes: number;
  /** Receive window of each stream; exceeding it is a FLOW_CONTROL_ERROR. */
  readonly streamWindowBytes: number;
  /** Receive window of the connection; exceeding it is a FLOW_CONTROL_ERROR. */
  readonly connectionWindowBytes: number;
  /** Unsent output, in octets, above which this server stops reading until the client has caught up. */
  readonly maxUnsentBytes: number;
  /** Burst of control frames (see `Budget`); more end the connection with ENHANCE_YOUR_CALM. */
  readonly controlFrames: number;
  /** Control frames that the budget regains per second. */
  readonly controlFramesPerSecond: number;
  /**
   * Time to complete the preface, a frame or a header block, and to read output beyond `maxUnsentBytes`, after which
   * ENHANCE_YOUR_CALM ends the connection. A client has up to twice as long to send the rest of a request or to open
   * the window for the rest of an answer, after which ENHANCE_YOUR_CALM ends the stream.
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
