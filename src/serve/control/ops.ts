import { shareRuns } from '../../base/later.ts';
import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { debugRoutes } from '../../edge/http/debug.ts';
import { isChecked, seesValues } from '../../operate/admin/access.ts';
import { operationRoutes } from '../../operate/admin/api.ts';
import { keepLocalToken } from '../../operate/admin/local-token.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { listOverrides } from '../../operate/admin/shown.ts';
import type { ExpositionFormat } from '../../operate/observe/metric.ts';
import { createMetrics } from '../../operate/observe/prometheus.ts';
import { referenceCounters, referenceGauges } from '../../operate/observe/reference-names.ts';
import type { InstanceFacts } from '../../operate/observe/table.ts';
import type { Settings } from '../../settings/settings.ts';
import { at, openHttp } from '../parts/http.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import { openTls } from '../parts/tls.ts';
import { type OperatorSources, openOperators } from './operators.ts';

/**
 * Opens the debug port.
 *
 * @throws CannotStart if DEBUG_PORT or PROMETHEUS_ADDR cannot be bound, or ADMIN_TOKEN has a problem
 */
export function openOps(settings: Settings, sources: OperatorSources, context: ProcessContext) {
  const { core, responders, statistics, localToken } = sources;
  const { rules, hash } = core;
  const { refresh, figures } = responders;
  const refreshed = shareRuns(refresh);
  const metrics = createMetrics(statistics);
  return openParts(async (add) => {
    const operators = add(await openOperators(settings, { ...sources, metrics, refreshed }, context));
    const { operations, options, pages, facts } = operators;
    const rendering = (format: ExpositionFormat) =>
      shareRuns(async () => {
        await refreshed();
        return metrics.render({ ...instanceFacts(options), ...(await facts()) }, format);
      });
    const rendered = { text: rendering('text'), openmetrics: rendering('openmetrics') };
    const { access } = options;
    const failed = (error: unknown) => context.log.error({ err: error }, 'an operation of the admin API failed');
    const routes = debugRoutes(
      {
        rules: rules.book.rules,
        lastLoad: rules.lastLoad,
        overrides: {
          seesValues: (request) => seesValues(request, access),
          list: (isShown) => listOverrides(core.overrides, isShown, hash),
        },
        metrics: (format = 'text') => rendered[format](),
        async statistics() {
          await refreshed();
          return [...referenceCounters(statistics), ...referenceGauges(figures())];
        },
      },
      new Map([...operationRoutes(operations, { access, rules: rules.book.rules, onError: failed }), ...pages]),
    );
    const { address, tls: files } = settings.debug;
    const tls = files && add(await openTls('DEBUG_TLS_CERT', { ...files, clientCa: undefined }, context));
    const bounds = {
      isChecked: (request: Parameters<typeof isChecked>[0]) => isChecked(request, access),
      ...(tls && { tls }),
    };
    const debug = await openHttp({ variable: 'DEBUG_PORT', address, routes, bounds, log: context.log });
    add({ close: () => debug.close(0) });
    if (access.tokens.every(({ isLocal }) => isLocal)) add(keepLocalToken(debug.port, localToken));
    return {
      /** The address of the debug port. */
      debug: at({ ...address, port: debug.port }),
      onCallFinished(...[method, status, elapsedMs]: Parameters<OnCallFinished>): void {
        metrics.onCallFinished(method, status, elapsedMs);
        operators.onCallFinished(method, elapsedMs);
      },
    };
  });
}

/** What metrics show besides statistics, without optional capabilities. */
function instanceFacts(options: AdminOptions): InstanceFacts {
  const { sourced } = options;
  return {
    isReady: options.isReady(),
    figures: options.figures(),
    openCircuits: options.openCircuits(),
    store: options.store(),
    background: options.background(),
    sites: options.sites(),
    rules: options.rules(),
    inForce: sourced.inForce(),
    restarts: options.restarts(),
    version: options.version,
    unmatched: [],
    findings: new Map(),
    overrides: [...options.overrides.all()],
    candidate: { isOn: false, report: undefined },
  };
}
