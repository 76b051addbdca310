/** What clients may ask of the server, on one connection unless said otherwise. Beyond a limit stands what becomes of it. */
export interface Http2Limits {
  /** Streams at a time, also those that their client has cancelled while the answer is being made. More: REFUSED_STREAM. */
  readonly maxConcurrentStreams: number;
  /** Octets of a header block that comes in several frames. More: ENHANCE_YOUR_CALM, and the end of the connection. */
  readonly maxHeaderBlockBytes: number;
  /** Octets of the fields of a request, 32 a field included. More: status 431. */
  readonly maxHeaderListBytes: number;
  /** The window of each stream for what clients send. More: FLOW_CONTROL_ERROR. */
  readonly streamWindowBytes: number;
  /** The window of the connection for what clients send. More: FLOW_CONTROL_ERROR. */
  readonly connectionWindowBytes: number;
  /** Octets of requests that are not complete, on all streams. More: ENHANCE_YOUR_CALM for the stream. */
  readonly maxUnfinishedBytes: number;
  /** Octets of answers that a client's window holds back, on all streams. More: ENHANCE_YOUR_CALM, and the end of the connection. */
  readonly maxHeldBackBytes: number;
  /** Octets of both kinds on all connections of a server together. More: as for either. */
  readonly maxWaitingBytes: number;
  /** Octets that the client does not take off its socket. More: nothing is read from it until it has. */
  readonly maxUnsentBytes: number;
  /** Frames that bring no request nearer its answer, at once: see `Budget`. More: ENHANCE_YOUR_CALM, and the end of the connection. */
  readonly idleFrames: number;
  /** What of those is forgiven a second. */
  readonly idleFramesPerSecond: number;
  /**
   * For the preface, a header block, and for taking `maxUnsentBytes`. Longer: ENHANCE_YOUR_CALM, and the end of the connection. For the rest of a
   * request, and for room for the rest of an answer: up to twice as long. Longer: ENHANCE_YOUR_CALM for the stream.
   */
  readonly patienceMs: number;
}

export const defaultLimits: Http2Limits = {
  maxConcurrentStreams: 10_000,
  maxHeaderBlockBytes: 65_536,
  maxHeaderListBytes: 65_536,
  streamWindowBytes: 262_144,
  connectionWindowBytes: 1_048_576,
  maxUnfinishedBytes: 16_777_216,
  maxHeldBackBytes: 16_777_216,
  maxWaitingBytes: 268_435_456,
  maxUnsentBytes: 262_144,
  idleFrames: 10_000,
  idleFramesPerSecond: 100,
  patienceMs: 30_000,
};

/** Octets that the connections of one server keep for clients that let it wait: of requests that are not complete, and of answers that are held back. */
export interface WaitingBytes {
  count: number;
}
