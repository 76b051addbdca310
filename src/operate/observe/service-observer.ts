import type { MissedBy } from '../../edge/rls/service.ts';
import type { Answer } from '../../engine/decide/decide.ts';

/** Notified of the outcome of requests. */
export interface ServiceObserver {
  answered(domain: string, answer: Answer): void;
  /** A request failed. */
  failed(cause: unknown): void;
  /** A gRPC connection or stream was ended with this error code. */
  connectionFailed(code: string): void;
  /** A call got no decision. */
  missed(by: MissedBy): void;
  /** Requests were recorded; others were not: too many, or the files could not be written. */
  recorded(requests: number, notRecorded: number): void;
  /** Decisions exceeded the limit of the decision log. */
  decisionsNotLogged(decisions: number): void;
}
