import { Addresses } from '../../engine/rules/match/addresses.ts';
import { type AccessOptions, parseTokens, Sessions } from '../../operate/admin/access.ts';
import { Audit } from '../../operate/admin/audit.ts';
import { adminOperations } from '../../operate/admin/operations.ts';
import type { AdminOptions, Responders } from '../../operate/admin/options.ts';
import type { Metrics } from '../../operate/observe/prometheus.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { InstanceFacts } from '../../operate/observe/table.ts';
import { mergeWork } from '../../operate/observe/work-state.ts';
import { Gatherer } from '../../operate/status/gatherer.ts';
import { operatorParts } from '../../parts/operators.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ControlStart } from '../link/messages.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart, openParts } from '../parts/start-up.ts';
import type { ControlCore } from './core.ts';
import type { OperatorContext, OperatorPart } from './part.ts';

/** What operators' parts of the process are made of. */
export interface OperatorSources
  extends Pick<ControlStart, 'version' | 'overrides' | 'localToken'>,
    Pick<OperatorContext, 'kept' | 'keep'> {
  readonly core: ControlCore;
  readonly responders: Responders;
  readonly statistics: Statistics;
  /** The part of the statistics that earlier control processes have sent. */
  readonly earlier: Statistics;
}

interface MeasuredSources extends OperatorSources {
  readonly metrics: Pick<Metrics, 'durations'>;
  /** Updates the statistics. */
  readonly refreshed: () => Promise<void>;
}

/**
 * Opens what operators use: the operations of the admin API, whose series begin now.
 *
 * @throws CannotStart if ADMIN_TOKEN contains a name twice
 */
export function openOperators(
  settings: Settings,
  { core, responders, statistics, version, metrics, refreshed, ...start }: MeasuredSources,
  context: ProcessContext,
) {
  const { clock, background } = context;
  return openParts(async (add) => {
    const { records, hasOwnRecords, rules, counters, hash, overrides } = core;
    const opened = new Map<string, OperatorPart>();
    const parts = (): readonly OperatorPart[] => [...opened.values()];
    const options: AdminOptions = {
      ...responders, // all of its members are own properties
      statistics,
      version,
      settings,
      clock,
      hash,
      rules: rules.book.rules,
      sourced: rules,
      candidate: rules.candidate,
      overrides,
      findings: () => parts().flatMap((part) => part.findings?.() ?? []),
      refusing: (isFor) =>
        parts()
          .find((part) => part.refusing)
          ?.refusing?.(isFor),
      audit: new Audit({
        sink: settings.admin.auditLog,
        clock,
        records,
        state: background.add('audit_log', 'writing the audit log'),
      }),
      access: {
        tokens: readTokens(settings, start.localToken),
        sessions: new Sessions(clock, settings.debug.address.port),
        identity: settings.admin.identity && readIdentity(settings.admin.identity),
      },
      counters,
      background: () => mergeWork([...background.report(), ...responders.background()]),
      requestsOfMinute: async () => {
        await refreshed();
        return gathered.service.requestsOfMinute(statistics);
      },
    };
    const gathered = add(new Gatherer(options, metrics.durations));
    const ofParts = { ...context, ...start, records, hasOwnRecords, gathered, opened };
    for (const [name, open] of Object.entries(operatorParts)) {
      const part = await open(options, settings, ofParts);
      add({ close: () => part.close?.() });
      opened.set(name, part);
    }
    const more = parts().flatMap((part) => part.operations ?? []);
    const timers = parts().flatMap((part) => part.onCallFinished ?? []);
    return {
      operations: adminOperations(options, more),
      /** Pages besides the operations. */
      pages: parts().flatMap((part) => [...(part.pages ?? [])]),
      options,
      onCallFinished(method: string, elapsedMs: number): void {
        for (const time of timers) time(method, elapsedMs);
      },
      /** What metrics show of optional capabilities. */
      facts: async () =>
        Object.assign({}, ...(await Promise.all(parts().map((part) => part.facts?.())))) as Partial<InstanceFacts>, // of each
    };
  });
}

/** @throws CannotStart if ADMIN_TOKEN has a problem */
function readTokens({ admin }: Settings, localToken: string): AdminOptions['access']['tokens'] {
  const tokens = parseTokens(admin.tokens ?? '');
  if (typeof tokens === 'string') throw new CannotStart(`ADMIN_TOKEN: ${tokens}`);
  return tokens.length > 0 ? tokens : [{ name: 'local', role: 'read', secret: localToken, isLocal: true }];
}

function readIdentity({ header, addresses }: NonNullable<Settings['admin']['identity']>): AccessOptions['identity'] {
  const trusted = new Addresses(addresses);
  return { header, isTrusted: (address) => trusted.matches(address) };
}
