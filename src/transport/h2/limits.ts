/** What a client may use of one connection. Each limit says what happens beyond it. Memory is bounded for all connections together, by `CallerMemory`. */
export interface Http2Limits {
  /** Streams at a time, and those that their client has cancelled while a handler is running. More: REFUSED_STREAM. */
  readonly maxConcurrentStreams: number;
  /** Octets of a header block that comes in several frames. More: ENHANCE_YOUR_CALM ends the connection. */
  readonly maxHeaderBlockBytes: number;
  /** Octets of the fields of a request, and 32 for each field. More: status 431. */
  readonly maxHeaderListBytes: number;
  /** The window of each stream for what clients send. More: FLOW_CONTROL_ERROR. */
  readonly streamWindowBytes: number;
  /** The window of the connection for what clients send. More: FLOW_CONTROL_ERROR. */
  readonly connectionWindowBytes: number;
  /** Octets that the client does not read from its socket. More: nothing is read from it until it has. */
  readonly maxUnsentBytes: number;
  /** Control frames at once: see `Budget`. More: ENHANCE_YOUR_CALM ends the connection. */
  readonly controlFrames: number;
  /** How many control frames a second the budget regains. */
  readonly controlFramesPerSecond: number;
  /**
   * For the preface, a frame, a header block, and for reading what exceeds `maxUnsentBytes`. Longer: ENHANCE_YOUR_CALM ends the connection. For the rest of a
   * request, and for room for the rest of an answer: up to twice as long. Longer: ENHANCE_YOUR_CALM ends the stream.
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
