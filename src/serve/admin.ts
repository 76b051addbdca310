import { operationRoutes } from '../admin/api.ts';
import { Audit } from '../admin/audit.ts';
import { unmatchedMetrics } from '../admin/metrics.ts';
import { type AdminOptions, adminOperations } from '../admin/operations.ts';
import { FOLLOW_INTERVAL_MS, OverrideRecords } from '../admin/override-records.ts';
import { sessionOperations } from '../admin/session-operations.ts';
import { Sessions } from '../admin/sessions.ts';
import { parseTokens } from '../admin/tokens.ts';
import type { Clock } from '../clock.ts';
import { profileRoutes } from '../http/profile.ts';
import type { Route } from '../http/server.ts';
import type { ExpositionFormat } from '../observe/exposition.ts';
import type { Logger } from '../observe/log.ts';
import type { Settings } from '../settings.ts';
import { type Certificates, openCertificates } from '../transport/certificates.ts';
import { deciderOf, extrasOf } from './answering.ts';
import { CannotStart, start } from './cannot-start.ts';
import type { Core } from './core.ts';
import type { Part } from './parts.ts';

/** Routes and metrics of the debug port for operators. */
export interface AdminPages extends Part {
  readonly routes: ReadonlyMap<string, Route>;
  /** Further lines for `/metrics`. */
  readonly metrics: (format: ExpositionFormat) => Promise<string>;
  /** Opens the certificate of the debug port; undefined: plain HTTP. */
  readonly tls: (() => Promise<Certificates>) | undefined;
}

/**
 * Creates the routes of the debug port that show callers' values or make changes.
 *
 * @throws CannotStart if ADMIN_TOKEN contains a name twice
 */
export function createAdminPages(
  settings: Settings,
  core: Pick<Core, 'counters' | 'rules'>,
  { ask, clock, version, more }: Pick<AdminOptions, 'ask' | 'version' | 'more'> & { readonly clock: Clock },
  log: Logger,
): AdminPages {
  const tokens = parseTokens(settings.ADMIN_TOKEN ?? '');
  if (!tokens) throw new CannotStart('ADMIN_TOKEN: each name may be there once');
  const { counters, rules } = core;
  const decider = deciderOf(settings, core, clock);
  const overrides = new OverrideRecords({
    records: counters.records,
    overrides: counters.overrides,
    clock,
    spread: (all) => ask({ kind: 'overrides', overrides: all }),
  });
  const access = {
    tokens,
    hosts: settings.ADMIN_HOSTS.map((host) => host.toLowerCase()),
    sessions: new Sessions(clock, settings.DEBUG_PORT),
  };
  const ofSessions = sessionOperations(access, { hashKeys: settings.HASH_KEYS, version, grpcPort: settings.GRPC_PORT });
  const operations = adminOperations({
    more: [...ofSessions, ...more],
    overrides,
    clock,
    decider,
    extras: extrasOf(settings),
    packed: rules.book.packed,
    source: rules.description,
    version,
    ledger: counters.ledger,
    counters: decider.counters,
    rules: rules.book.rules,
    audit: new Audit({ sink: settings.AUDIT_LOG, clock, records: counters.records }),
    ask,
    hasWorkers: settings.WORKERS > 1,
    hashKeys: settings.HASH_KEYS,
  });
  const failed = (error: unknown) => log.error({ err: error }, 'an operation of the admin API failed');
  const profilers = tokens.filter(({ role }) => role === 'operate').map(({ secret }) => secret);
  const routes = new Map([...profileRoutes(profilers), ...operationRoutes(operations, access, failed)]);
  const { DEBUG_TLS_CERT: cert, DEBUG_TLS_KEY: key } = settings;
  const follower = setInterval(() => void overrides.follow().catch(() => {}), FOLLOW_INTERVAL_MS).unref(); // while they cannot be read, the last ones apply
  return {
    routes,
    tls:
      cert === ''
        ? undefined
        : () =>
            start('DEBUG_TLS_CERT', 'cannot use TLS', () =>
              openCertificates({ cert, key, clientCa: undefined }, clock, (problem) => log.error(problem)),
            ),
    metrics: (format) => unmatchedMetrics(ask, format),
    close: async () => clearInterval(follower),
  };
}
