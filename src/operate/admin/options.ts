import type { Clock } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import type { Counters } from '../../engine/backends/key.ts';
import type { Overrides } from '../../engine/decide/overrides.ts';
import type { SiteSplit } from '../../engine/holds/claim.ts';
import type { PackedRules } from '../../engine/rules/compile/packed.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import type { Reload } from '../observe/reload.ts';
import type { SitesReport } from '../observe/site-counts.ts';
import type { Statistics } from '../observe/stats.ts';
import type { ReportedFigures, RulesInForceFacts, StoreFacts } from '../observe/table.ts';
import type { WorkReport } from '../observe/work-state.ts';
import type { AccessOptions } from './access.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from './agent.ts';
import type { Audit } from './audit.ts';
import type { View } from './scope.ts';

/** The processes that answer requests, as the parts that serve operators use them. */
export interface Responders {
  /** Asks every process; those that do not reply in time are left out. */
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /**
   * Asks one process.
   *
   * @param moreMs  how long the answer takes by itself
   * @returns undefined  none replied in time
   */
  readonly askOne: <Q extends AgentQuestion>(question: Q, moreMs?: number) => Promise<ReplyTo<Q> | undefined>;
  /** Whether there is such a process, and every one can decide requests. */
  readonly isReady: () => boolean;
  /** Updates statistics, calls and cache. */
  readonly refresh: () => Promise<void>;
  /** What all of them report. */
  readonly figures: () => ReportedFigures;
  /** The number of processes with an open circuit, for each node of the store. */
  readonly openCircuits: () => ReadonlyMap<string, number>;
  /** Where the counters are, for people. */
  readonly storeDescription: () => string;
  /** The state of the store; undefined: counters are in the memory of these processes. */
  readonly store: () => StoreFacts | undefined;
  /** The exchanges with other sites; undefined: this is the only one. */
  readonly sites: () => SitesReport | undefined;
  /** The work beside the answers; in `AdminOptions` with that of this process. */
  readonly background: () => readonly WorkReport[];
  /** The number of replaced workers. */
  readonly restarts: () => number;
}

/** Rules that are tried in addition to the current ones. */
export interface Candidate {
  readonly facts: CandidateFacts;
  packed(): PackedRules | undefined;
  onChange(listener: () => void): void;
  /** Loads the candidate of the files, and follows them. */
  start(): void;
  close(): void;
}

/** The status of the candidate. */
export interface CandidateFacts {
  /** `wrong`: it has problems, and is not tried. */
  readonly state: 'off' | 'on' | 'wrong';
  /** Milliseconds since the epoch; undefined: it is not on. */
  readonly loadedAtMs: number | undefined;
  readonly hash: string | undefined;
}

/** There is no candidate. */
export const noCandidate: CandidateFacts = { state: 'off', loadedAtMs: undefined, hash: undefined };

/** The current rules and their source. */
export interface SourcedRules {
  readonly book: RuleBook;
  /** Result of the last load; the current rules may be older. */
  lastLoad(): LoadedRules | undefined;
  /** The current rules, if any. */
  inForce(): RulesInForceFacts | undefined;
  /** The last reload and its time; undefined for the first rules. */
  lastReload(): { readonly atMs: number; readonly reload: Reload } | undefined;
  /** Names the path or the control plane in messages. */
  readonly description: string;
  /** Tells operators how the source is read, if that is not obvious. */
  readonly notes: readonly string[];
  /** Undefined: this build tries none. */
  readonly candidate: Candidate | undefined;
}

/** The part of the settings that operations show or depend on. */
interface ShownSettings {
  /** The number of processes that answer requests. */
  readonly workers: number;
  readonly rlqs: { readonly isOn: boolean };
  /** Undefined: this is the only site. */
  readonly sites:
    | { readonly name: string; readonly names: readonly string[]; readonly lost: readonly string[] }
    | undefined;
  readonly counters: { readonly split: SiteSplit | undefined };
  readonly rules: {
    /** A path, a runtime directory, or a control plane. */
    readonly origin: object;
    readonly candidate: { readonly path: string | undefined };
  };
  readonly candidate: { readonly sample: number; readonly maxInFlight: number };
  readonly agent: { readonly refusals: number; readonly topKeysBytes: number };
  readonly prometheus: object | undefined;
  readonly usage: { readonly intervalMs: number } | undefined;
  readonly notify?: object | undefined;
  readonly grpc: { readonly address: { readonly port?: number } };
}

/** A likely mistake in the configuration of a proxy. */
export interface KnownFinding {
  /** `undecided`: requests of the proxy get no decision. */
  readonly kind: string;
  readonly sinceMs: number;
  readonly problem: string;
  /** The likely line of configuration. */
  readonly configuration: string;
  readonly example: readonly Entry[];
  readonly domain?: string;
  readonly rule?: string;
}

/** What operations need of the service. */
export interface AdminOptions extends Responders {
  readonly settings: ShownSettings;
  readonly version: string;
  readonly clock: Clock;
  /** Hashes callers' values for display. Undefined shows them unchanged. */
  readonly hash: Hash | undefined;
  readonly rules: () => RuleTree | undefined;
  /** The same rules, with how they were loaded. */
  readonly sourced: SourcedRules;
  /** Operators' overrides of single descriptors, as the deciders follow them. */
  readonly overrides: Overrides;
  readonly audit: Audit;
  readonly access: AccessOptions;
  readonly statistics: Statistics;
  readonly findings: () => readonly KnownFinding[];
  /** The path of the rule that refused most in the last minute; undefined: there is none, or it is not known. */
  readonly refusing: (isFor: View) => string | undefined;
  /** The names of counters. */
  readonly counters: Counters;
  /** Requests that all processes received in the last minute. */
  readonly requestsOfMinute: () => Promise<number>;
}
