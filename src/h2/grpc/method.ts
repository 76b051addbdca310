/**
 * Limits of the side services, which are all services except decisions; much lower than the limits of decisions. The h2
 * transport enforces all of them, grpc-js only `maxSilenceMs`.
 */
export const sideLimits = {
  /** Open streams per connection, for all side services together. More: RESOURCE_EXHAUSTED. */
  maxStreams: 100,
  /** Message size, before and after decompression. More: RESOURCE_EXHAUSTED. */
  maxMessageBytes: 4_096,
  /** Unread output of a connection. More: the next reflection request on it is RESOURCE_EXHAUSTED. */
  maxUnreadBytes: 65_536,
  /** Messages of a stream that wait for the client's flow-control windows. More: RESOURCE_EXHAUSTED. */
  maxUnreadMessages: 16,
  /** How long a reflection stream stays open after its client's last message, before it ends with OK. */
  maxSilenceMs: 60_000,
} as const;
