/**
 * What clients may use of the side services, health and reflection: much less than of decisions, which a server is there for. The h2 transport
 * enforces all of it; on grpc-js, only `maxSilenceMs` can be.
 */
export const sideLimits = {
  /** Streams of a connection at a time, on all side services together. More: RESOURCE_EXHAUSTED. */
  maxStreams: 100,
  /** Bytes of a message, also when it is decompressed. More: RESOURCE_EXHAUSTED. */
  maxMessageBytes: 4_096,
  /** Bytes of output that the client of a connection has not taken yet. More: its next reflection request is RESOURCE_EXHAUSTED. */
  maxUnreadBytes: 65_536,
  /** Messages of a stream that wait for room in the client's windows. More: RESOURCE_EXHAUSTED. */
  maxUnreadMessages: 16,
  /** For how long a reflection stream stays open after its client's last message. Longer: it ends with OK. */
  maxSilenceMs: 60_000,
} as const;
