import type { GrpcServerOptions } from '../edge/grpc/grpc-server.ts';
import type { Deciding } from '../edge/grpc/side-service.ts';
import type { JsonOverload, OfferedService } from '../edge/http/api.ts';
import type { Route } from '../edge/http/server.ts';
import type { RlsService } from '../edge/rls/service.ts';
import type { ReplicaSource, RuleBook, RuleBookOptions } from '../engine/rules/reload/book.ts';
import type { GrpcServer } from '../h2/server.ts';
import type { Candidate } from '../operate/admin/options.ts';
import type { Logger } from '../operate/observe/log.ts';
import type { CandidateSources } from '../serve/control/part.ts';
import type { OpenDeciderPart } from '../serve/decider/part.ts';
import type { ProcessContext } from '../serve/parts/process-context.ts';
import type { Settings } from '../settings/settings.ts';
import { openCandidateBook } from './candidate/open-book.ts';
import { openCounterQuestions } from './counters/open.ts';
import { openExplain } from './explain/open.ts';
import { offerFind } from './find/offer.ts';
import { openEvidence } from './findings/open.ts';
import { offerHolds } from './holds/offer.ts';
import { offerKuadrant } from './kuadrant/offer.ts';
import { offerReflection } from './reflection/offer.ts';
import { Replicas } from './replicas/source.ts';
import { openUnmatched } from './unmatched/open.ts';
import { discoveredRules } from './xds/source.ts';

// Optional capabilities, each in a folder beside this file. The core imports the files beside these folders, and nothing
// else of them: this one, `commands.ts`, `operators.ts` and `answers.ts`, which are apart since different processes load
// them, and for the engine `stores.ts`, `limit-kinds.ts`, `rule-keys.ts`, `limit-readers.ts`, `limit-times.ts`,
// `shared-rules.ts`, `ledger-keepers.ts` and `rule-checks.ts`. A capability can be taken out by deleting its folder and
// the lines of these files that name it.

/** By the names of folders. */
export type Parts<T> = Readonly<Record<string, T>>;

/** Rules that do not come from files. */
interface OtherRules {
  /** For messages. */
  readonly from: string;
  open(loading: Omit<RuleBookOptions, 'pollIntervalMs'>): Promise<RuleBook>;
}

/** Functions that find other sources of rules in the settings. */
export const ruleSources: Parts<(rules: Settings['rules'], log: Logger) => OtherRules | undefined> = {
  xds: discoveredRules,
};

type OpenCandidate = (rules: Settings['rules'], sources: CandidateSources, context: ProcessContext) => Candidate;

/** Functions that open the rules that are tried beside those in force. */
export const candidates: Parts<OpenCandidate> = {
  candidate: openCandidateBook,
};

/** Functions that open what counts the replicas of services, for rules. */
export const replicaSources: Parts<(context: ProcessContext) => ReplicaSource> = {
  replicas: (context) => new Replicas(context),
};

/** Functions that offer gRPC services, and pages with the same methods. */
const services: Parts<(deciding: Deciding) => OfferedService> = {
  holds: offerHolds,
  find: offerFind,
  kuadrant: offerKuadrant,
  reflection: offerReflection,
};

export const offerServices = (deciding: Deciding): readonly OfferedService[] =>
  Object.values(services).map((offer) => offer(deciding));

/** Functions that load gRPC servers besides that of `h2/`, by their names in GRPC_TRANSPORT. */
export const otherTransports: Parts<() => Promise<(options: GrpcServerOptions) => Promise<GrpcServer>>> = {
  'grpc-js': async () => (await import('./grpc-js/grpc-js.ts')).startGrpcJsServer,
};

type OpenRoute = (path: string, service: RlsService, overload: JsonOverload) => Promise<readonly [string, Route]>;

/** Functions that load pages for callers, by the setting that asks for them. */
export const routes: Partial<Record<keyof Settings['http'], () => Promise<OpenRoute>>> = {
  authz: async () => (await import('./authz/open.ts')).openAuthz,
};

/**
 * Functions that load what processes that answer requests open, unless it is off. Of several that wrap the same, the
 * first is the innermost; a ledger is within each decider, so those with a ledger come first.
 */
export const deciderParts: Parts<(settings: Settings) => Promise<OpenDeciderPart | undefined>> = {
  findings: async () => openEvidence,
  usage: async ({ counters }) => (counters.usage ? (await import('./usage/source.ts')).openUsageSource : undefined),
  sites: async ({ sites }) => (sites ? (await import('./sites/open.ts')).openSites(sites) : undefined),
  notify: async ({ notify }) => (notify ? (await import('./notify/open.ts')).openCrossings : undefined),
  record: async ({ recording }) =>
    recording ? (await import('./record/open.ts')).openRecording(recording) : undefined,
  candidate: async () => (await import('./candidate/open.ts')).openCandidate,
  tracing: async ({ tracing }) => (tracing ? (await import('./tracing/open.ts')).openTracing(tracing) : undefined),
  quotas: async ({ rlqs }) => (rlqs.isOn ? (await import('./quotas/open.ts')).openQuotas : undefined),
  explain: async () => openExplain,
  counters: async () => openCounterQuestions,
  unmatched: async () => openUnmatched,
  top: async ({ agent: { topKeysBytes } }) =>
    topKeysBytes > 0 ? (await import('./top/open.ts')).openTop(topKeysBytes) : undefined,
  refusals: async ({ agent: { refusals } }) =>
    refusals > 0 ? (await import('./refusals/open.ts')).openRefusals(refusals) : undefined,
  profile: async ({ admin }) => (admin.tokens ? (await import('./profile/open.ts')).openProfiles : undefined),
  'decision-log': async ({ decisionLog }) =>
    decisionLog.isOn ? (await import('./decision-log/open.ts')).openDecisionLog : undefined,
  advise: async ({ advice }) => (advice.maxBytes > 0 ? (await import('./advise/open.ts')).openArrivals : undefined),
};
