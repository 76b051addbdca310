import type { IncomingMessage } from 'node:http';
import { every } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import type { OverrideList } from '../../edge/http/debug.ts';
import { type ProfileKind, profileRoutes } from '../../edge/http/profile.ts';
import type { Route } from '../../edge/http/server.ts';
import type { SitesReport } from '../../edge/sites/site-counts.ts';
import type { Counters } from '../../engine/backends/key.ts';
import { memoryRecords, type Records } from '../../engine/backends/records.ts';
import type { Overrides, StandingOverride } from '../../engine/decide/overrides.ts';
import { findToken, isChecked, parseTokens, Sessions, seesValues } from '../../operate/admin/access.ts';
import { type AdviceSource, adviceOperations } from '../../operate/admin/advice-operations.ts';
import { type ApiOperation, operationRoutes } from '../../operate/admin/api.ts';
import { Audit } from '../../operate/admin/audit.ts';
import { CANDIDATE_INTERVAL_MS, CandidateRecords } from '../../operate/admin/candidate-records.ts';
import { adminOperations } from '../../operate/admin/operations.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { listOverrides } from '../../operate/admin/override-operations.ts';
import { FOLLOW_INTERVAL_MS, OverrideRecords } from '../../operate/admin/override-records.ts';
import { sessionOperations } from '../../operate/admin/session-operations.ts';
import { siteOperations } from '../../operate/admin/site-operations.ts';
import { usageOperations } from '../../operate/admin/usage-operations.ts';
import type { UsageStore } from '../../operate/usage/usage-store.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart, type Part } from '../parts/start-up.ts';
import type { SourcedRules } from './rules.ts';

/** Routes of the debug port that show callers' values or make changes. */
interface AdminPages extends Part {
  readonly routes: ReadonlyMap<string, Route>;
  readonly overrides: OverrideList;
  /** Whether a request has a valid token. */
  isChecked(request: IncomingMessage): boolean;
}

export interface AdminSources
  extends Pick<AdminOptions, 'ask' | 'askOne' | 'version' | 'requestsOfMinute' | 'findings'> {
  readonly core: {
    readonly rules: SourcedRules;
    readonly records: Records;
    /** The records are in this process alone. */
    readonly hasOwnRecords: boolean;
    readonly counters: Counters;
    readonly overrides: Overrides;
    readonly hash: Hash | undefined;
  };
  /** The exchange with other sites, summed over all processes of this instance. */
  readonly sites: () => SitesReport | undefined;
  /** Source of advice; undefined if arrivals are not followed. */
  readonly advice: AdviceSource | undefined;
  /** Usage; undefined if this instance keeps none. */
  readonly usage: UsageStore | undefined;
  /** Overrides that the deciders follow, if any. */
  readonly standing: readonly StandingOverride[] | undefined;
  readonly console: readonly ApiOperation[];
}

/** @throws CannotStart if ADMIN_TOKEN contains a name twice */
export function openAdminPages(
  settings: Settings,
  { core, ask, askOne, version, requestsOfMinute, findings, sites, advice, usage, standing, console }: AdminSources,
  { clock, log }: ProcessContext,
): AdminPages {
  const { records, rules, counters, hash } = core;
  const { hosts, auditLog } = settings.admin;
  const tokens = parseTokens(settings.admin.tokens ?? '');
  if (!tokens) throw new CannotStart('ADMIN_TOKEN: names must be unique');
  const access = {
    tokens,
    hosts: hosts.map((host) => host.toLowerCase()),
    sessions: new Sessions(clock, settings.debug.address.port),
  };
  const overrides = new OverrideRecords({
    records,
    clock,
    overrides: core.overrides,
    spread: (all) => ask({ kind: 'overrides', overrides: all }),
    isEmpty: standing === undefined || standing.length === 0,
  });
  const candidates = openCandidates(settings, records, rules.candidate);
  const audit = new Audit({ sink: auditLog, clock, records });
  const operations = adminOperations({
    rules: rules.book.rules,
    packed: rules.book.packed,
    source: rules.description,
    ...candidates.options,
    overrides,
    clock,
    version,
    ask,
    askOne,
    hash,
    hasWorkers: settings.workers > 1,
    hasQuotas: settings.rlqs.isOn,
    requestsOfMinute,
    findings,
    audit,
    more: [
      ...sessionOperations(access, describeService(settings, version, hash !== undefined)),
      ...siteOperations({
        sites: settings.sites,
        report: sites,
        ask,
        hash,
        rules: rules.book.rules,
        decider: { clock, counters },
      }),
      ...console,
      ...adviceOperations(advice),
      ...usageOperations({ store: usage, latenessMs: 2 * (settings.usage?.intervalMs ?? 0), audit, hash, clock }),
    ],
  });
  const failed = (error: unknown) => log.error({ err: error }, 'an operation of the admin API failed');
  const follow = () => void overrides.follow().catch(() => {}); // while they cannot be read, the last ones apply
  if (core.hasOwnRecords && standing) void overrides.restore(standing);
  const stopFollowing = every(FOLLOW_INTERVAL_MS, follow);
  return {
    overrides: {
      seesValues: (request) => seesValues(request, access),
      list: (isShown) => listOverrides(core.overrides, isShown, hash),
    },
    isChecked: (request) => isChecked(request, access),
    routes: new Map([...profilePages(tokens, askOne), ...operationRoutes(operations, access, failed)]),
    close() {
      stopFollowing();
      candidates.close();
    },
  };
}

/** What the console must know of the service to show its pages. */
const describeService = (
  { rlqs, sites, agent, prometheus, usage, grpc }: Settings,
  version: string,
  hashKeys: boolean,
): Parameters<typeof sessionOperations>[1] => ({
  hashKeys,
  version,
  hasQuotas: rlqs.isOn,
  hasSites: sites !== undefined,
  keepsRefusals: agent.refusals > 0,
  countsClients: agent.topKeysBytes > 0,
  hasPrometheus: prometheus !== undefined,
  keepsUsage: usage !== undefined,
  grpcPort: grpc.address.port,
});

/** The profiles of a decider, for the role `operate`. */
function profilePages(tokens: NonNullable<ReturnType<typeof parseTokens>>, askOne: AdminOptions['askOne']) {
  const takeProfile = async (what: ProfileKind, seconds: number, end: AbortSignal) => {
    end.addEventListener('abort', () => void askOne({ kind: 'end_profile' }));
    return askOne({ kind: 'profile', what, seconds }, seconds * 1_000);
  };
  const allowed = tokens.filter(({ role }) => role === 'operate');
  if (allowed.length === 0) return new Map();
  return profileRoutes(({ headers }) => findToken(headers.authorization, allowed) !== undefined, takeProfile);
}

/** The API's part for candidates. Instances on one store follow the same candidate, except those with files for it. */
function openCandidates(
  { rules: { candidate, origin }, candidate: { sample, maxInFlight }, counters, workers }: Settings,
  records: Records,
  book: SourcedRules['candidate'],
) {
  const isShared = candidate.path === undefined && counters.store.kind !== 'memcache'; // which keeps no records
  const candidateRecords = new CandidateRecords(isShared ? records : memoryRecords(), book);
  const follow = () => void candidateRecords.follow().catch(() => {}); // if it fails, the last candidate stays
  return {
    options: {
      candidate: book,
      candidateRecords,
      candidatePath: candidate.path,
      trial: { sample, maxInFlight: maxInFlight * workers },
      split: counters.split,
      hasRuleFiles: !('controlPlane' in origin),
    },
    close: isShared ? every(CANDIDATE_INTERVAL_MS, follow) : () => {},
  };
}
