import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { CircuitState } from '../../engine/open/open-backends.ts';
import type { PackedDomain } from '../../engine/rules/compile/packed.ts';
import type { BindAddress } from '../../h2/listen/listener.ts';
import type { UsableFiles } from '../../h2/listen/usable-files.ts';
import type { AgentQuestion, AgentReply } from '../../operate/admin/agent.ts';
import type { SitesReport } from '../../operate/observe/site-counts.ts';
import type { Counted } from '../../operate/observe/stats.ts';
import type { ReportedFigures, StoreFacts } from '../../operate/observe/table.ts';
import type { WorkReport } from '../../operate/observe/work-state.ts';
import type { Environment } from '../../settings/near-misses.ts';

/** The addresses of a decider, and its store. */
export interface Listening {
  readonly grpc: string;
  readonly http: string;
  /** Where its counters are, for people. */
  readonly counters: string;
}

/** What a decider has counted, and its state. */
export interface Report {
  readonly counted: Counted;
  readonly calls: readonly CallTimes[];
  /** Its circuits, by node of the store. */
  readonly circuits: ReadonlyMap<string, CircuitState>;
  readonly figures: ReportedFigures;
  /** Its exchanges with other sites; undefined if this is the only one. */
  readonly sites: SitesReport | undefined;
  readonly background: readonly WorkReport[];
  readonly isReady: boolean;
  /** State of the store; undefined for counters in its memory. */
  readonly store: StoreFacts | undefined;
}

/** Durations of calls with the same method and status. */
export interface CallTimes {
  readonly method: Parameters<OnCallFinished>[0];
  readonly status: Parameters<OnCallFinished>[1];
  readonly elapsedMs: readonly number[];
}

/**
 * A version of rules: a beginning, parts of domains, in order within a domain, then an end, which says whether there
 * are any. Large rules are sent in many messages, so that none delays a decider's requests.
 */
export type RulesMessage =
  | { readonly kind: 'rules_begin' }
  | { readonly kind: 'rules_part'; readonly part: PackedDomain }
  | { readonly kind: 'rules_end'; readonly areLoaded: boolean };

/** Messages for all deciders, which the supervisor keeps for those that start later. */
export type SpreadMessage =
  | { readonly kind: 'rules'; readonly message: RulesMessage }
  /** The candidate; an end without rules: there is none. */
  | { readonly kind: 'candidate'; readonly message: RulesMessage }
  /** The ports of operators are open. */
  | { readonly kind: 'operators_served' };

/** A question of the control process to one decider. */
export type DeciderQuestion =
  /** Requests a report with this number: what was counted since the last report, or since the decider's start. */
  | { readonly kind: 'report'; readonly number: number; readonly since: 'start' | 'last' }
  /** Answer an operator's question, under this number. */
  | { readonly kind: 'ask'; readonly number: number; readonly question: AgentQuestion };

/** A decider's answers to the control process. */
export type DeciderReply =
  /** A part of the report with this number; undefined for the last one, which is sent unasked. */
  | {
      readonly kind: 'report';
      readonly number: number | undefined;
      readonly since: 'start' | 'last';
      readonly report: Report;
    }
  /** The answer, or undefined if something failed. After a report: undefined, since all of its parts have been sent. */
  | { readonly kind: 'reply'; readonly number: number; readonly reply: AgentReply | undefined };

export type ToDecider = SpreadMessage | DeciderQuestion;

/** Messages of the supervisor to a worker, a decider in a process of its own. */
export type ToWorker =
  | ToDecider
  /** The last usable contents of certificate and key files. */
  | { readonly kind: 'files'; readonly usable: UsableFiles }
  /** The supervisor listens at this door, or cannot. */
  | { readonly kind: 'bound'; readonly at: string; readonly port: number }
  | { readonly kind: 'bound'; readonly at: string; readonly message: string }
  /** A connection, which comes with the message unless its client has closed it. */
  | { readonly kind: 'connection'; readonly at: string; readonly number: number }
  /** Finish the calls in flight, then end. */
  | { readonly kind: 'close' };

/** Messages of a worker to the supervisor. */
export type FromWorker =
  | DeciderReply
  /** Ready to receive files, which are sent once. */
  | { readonly kind: 'takes_files' }
  /** The last usable contents of its files, for workers that start later. */
  | { readonly kind: 'files'; readonly usable: UsableFiles }
  /** Ready to receive the current rules, then each change. */
  | { readonly kind: 'takes_rules' }
  /** Connections to this address are wanted. The same door of all workers is one. */
  | { readonly kind: 'listen'; readonly at: string; readonly address: BindAddress }
  /** Connections at this door are no longer wanted. */
  | { readonly kind: 'leave'; readonly at: string }
  | { readonly kind: 'answered'; readonly number: number; readonly isTaken: boolean }
  | { readonly kind: 'listening'; readonly at: Listening }
  /** It cannot start, or its store was never reached. */
  | { readonly kind: 'cannot_start'; readonly message: string };

/** The state with which a control process begins. */
export interface ControlStart {
  readonly version: string;
  readonly env: Environment;
  /** The path of the rules, overriding the environment. */
  readonly rules: string | undefined;
  /** Lets clients on this machine read what callers sent, if no tokens are set. */
  readonly localToken: string;
  /** Another control process has served operators before. */
  readonly isReplacement: boolean;
  /** Current overrides; undefined if none have been set since the service started. */
  readonly overrides: readonly StandingOverride[] | undefined;
  /** What optional capabilities have kept in the control processes before it, by their names. */
  readonly kept: ReadonlyMap<string, unknown>;
  /** Its questions have this number and higher ones: replies with lower numbers are for a process before it. */
  readonly firstNumber: number;
}

/** A decider that listens. */
export interface StartedDecider {
  readonly id: number;
  /** For messages: `worker 3 (process 4711)`. */
  readonly name: string;
  /** Where its counters are, for people. */
  readonly counters: string;
  /** The number of deciders so far that replaced one that ended. */
  readonly restarts: number;
  /** Earlier control processes have received reports of it. */
  readonly hasReported: boolean;
}

/** Messages of the supervisor to the control process. */
export type ToControl =
  | { readonly kind: 'start'; readonly start: ControlStart }
  /** A decider listens, and answers questions. */
  | { readonly kind: 'decider'; readonly decider: StartedDecider }
  | { readonly kind: 'decider_ended'; readonly id: number }
  | { readonly kind: 'from'; readonly id: number; readonly message: DeciderReply }
  | { readonly kind: 'close' };

/** Messages of the control process to the supervisor. */
export type FromControl =
  | SpreadMessage
  | { readonly kind: 'to'; readonly id: number; readonly message: DeciderQuestion }
  | { readonly kind: 'opened'; readonly about: About }
  /** What an optional capability keeps for the next control process. */
  | { readonly kind: 'kept'; readonly part: string; readonly value: unknown }
  /** Sent every second by a process that is open. */
  | { readonly kind: 'alive' }
  /** This process cannot start. */
  | { readonly kind: 'failed'; readonly message: string };

/** Facts about the control process and the rules for the summary at the start. */
export interface About {
  readonly debug: string;
  /** The address of the console for a browser on this machine. */
  readonly console: string;
  /** Where the rules come from, with their number. */
  readonly rules: string;
  /** Details of how they are read, and the first rules, a line each. */
  readonly details: readonly string[];
  /** A request that matches the first rule, as arguments of `weir ask`; undefined if there are no rules. */
  readonly example: string | undefined;
}
