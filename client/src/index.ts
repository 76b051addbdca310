export type { BreakerState } from './breaker.ts';
export { type Client, type ClientStats, createClient } from './client.ts';
export type {
  Decision,
  DecisionSource,
  DescriptorDecision,
  LimitState,
  NotLimited,
  SparedLimit,
} from './decision.ts';
export { type FailureKind, LimitExceeded, WeirUnavailable } from './errors.ts';
export type { HoldOptions } from './hold-call.ts';
export type { CostAfter, HeaderStyle, Key, LimitOptions, TrustProxy } from './middleware/options.ts';
export type {
  BreakerOptions,
  CallOptions,
  ClientOptions,
  Descriptor,
  LocalLimitOptions,
  OnError,
  RefusalOptions,
  TlsOptions,
} from './options.ts';
export type { Reservation, ReserveOutcome } from './reservations.ts';
export type { ServerStats } from './server.ts';
export type { Slot, SlotOptions, SlotOutcome } from './slots.ts';
export type { OpenTelemetryApi, OpenTelemetrySpan } from './telemetry.ts';
export type {
  DecisionEngine,
  EngineAnswer,
  EngineRefusal,
  EngineRequest,
  EngineVerdict,
  LimitedVerdict,
} from './transport/engine.ts';
export type { Commit, CommitOutcome, ResponseHeader } from './wire/messages.ts';
