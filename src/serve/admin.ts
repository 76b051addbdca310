import { seesValues } from '../admin/access.ts';
import { operationRoutes } from '../admin/api.ts';
import { Audit } from '../admin/audit.ts';
import { CANDIDATE_INTERVAL_MS, CandidateRecords } from '../admin/candidate-records.ts';
import { adminOperations } from '../admin/operations.ts';
import type { AdminOptions } from '../admin/options.ts';
import { listOverrides } from '../admin/override-operations.ts';
import { FOLLOW_INTERVAL_MS, OverrideRecords } from '../admin/override-records.ts';
import { memoryRecords, type Records } from '../admin/records.ts';
import { sessionOperations } from '../admin/session-operations.ts';
import { Sessions } from '../admin/sessions.ts';
import { shownBy } from '../admin/shown-value.ts';
import { parseTokens } from '../admin/tokens.ts';
import type { OverrideList } from '../http/debug.ts';
import { profileRoutes } from '../http/profile.ts';
import type { Route } from '../http/server.ts';
import type { Settings } from '../settings.ts';
import { CannotStart, type Part } from '../start-up.ts';
import { every, type ProcessContext } from './context.ts';
import { type Core, deciderOf } from './core.ts';
import { extrasOf } from './responder.ts';
import type { SourcedRules } from './rules.ts';

/** Routes of the debug port that show callers' values or make changes. */
export interface AdminPages extends Part {
  readonly routes: ReadonlyMap<string, Route>;
  readonly overrides: OverrideList;
}

/** @throws CannotStart if ADMIN_TOKEN contains a name twice */
export function openAdminPages(
  settings: Settings,
  { store, rules }: Core<SourcedRules>,
  { ask, version, more }: Pick<AdminOptions, 'ask' | 'version' | 'more'>,
  { clock, log }: ProcessContext,
): AdminPages {
  const { hosts, auditLog, hashKeys } = settings.admin;
  const tokens = parseTokens(settings.admin.tokens ?? '');
  if (!tokens) throw new CannotStart('ADMIN_TOKEN: each name may be there once');
  const decider = deciderOf(settings, { store, rules }, clock);
  const { records, ledger } = store;
  const overrides = new OverrideRecords({
    ...{ records, clock, overrides: store.overrides },
    spread: (all) => ask({ kind: 'overrides', overrides: all }),
  });
  const access = {
    tokens,
    hosts: hosts.map((host) => host.toLowerCase()),
    sessions: new Sessions(clock, settings.debug.address.port),
  };
  const candidates = openCandidates(settings, records, rules.candidate);
  const ofSessions = sessionOperations(access, {
    ...{ hashKeys, version, grpcPort: settings.grpc.address.port, hasQuotas: settings.rlqs.isOn },
    hasSites: settings.sites !== undefined,
  });
  const operations = adminOperations({
    more: [...ofSessions, ...more],
    ...{ overrides, clock, decider, version, ledger, ask, hashKeys },
    ...{ packed: rules.book.packed, source: rules.description, rules: rules.book.rules },
    extras: extrasOf(settings.answers),
    counters: decider.counters,
    audit: new Audit({ sink: auditLog, clock, records }),
    hasWorkers: settings.workers > 1,
    hasQuotas: settings.rlqs.isOn,
    ...candidates.options,
  });
  const failed = (error: unknown) => log.error({ err: error }, 'an operation of the admin API failed');
  const profilers = tokens.filter(({ role }) => role === 'operate').map(({ secret }) => secret);
  const follow = () => void overrides.follow().catch(() => {}); // while they cannot be read, the last ones apply
  const isAlone = store.memory !== undefined; // then nothing else changes them
  const stopFollowing = isAlone ? () => {} : every(FOLLOW_INTERVAL_MS, follow);
  return {
    overrides: {
      seesValues: (request) => seesValues(request, access),
      list: (isShown) => listOverrides(store.overrides, shownBy(isShown, hashKeys)),
    },
    routes: new Map([...profileRoutes(profilers), ...operationRoutes(operations, access, failed)]),
    close() {
      stopFollowing();
      candidates.close();
    },
  };
}

/** What the API does with candidates. Instances on one Redis follow the same one, but for those that have files. */
function openCandidates(
  { rules: { candidate, origin }, candidate: { sample, maxInFlight }, counters, workers }: Settings,
  records: Records,
  book: SourcedRules['candidate'],
) {
  const isShared = candidate.path === undefined && counters.store.kind === 'redis';
  const candidateRecords = new CandidateRecords(isShared ? records : memoryRecords(), book);
  const follow = () => void candidateRecords.follow().catch(() => {}); // while it cannot be read, the last one stays
  return {
    options: {
      ...{ candidate: book, candidateRecords, candidatePath: candidate.path },
      trial: { sample, maxInFlight: maxInFlight * workers },
      split: counters.split,
      hasRuleFiles: !('controlPlane' in origin),
    },
    close: isShared ? every(CANDIDATE_INTERVAL_MS, follow) : () => {},
  };
}
