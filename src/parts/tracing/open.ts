import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { CannotStart, start } from '../../serve/parts/start-up.ts';
import type { Settings } from '../../settings/settings.ts';

/** The packages that tracing needs in addition: optional peer dependencies. */
export const TRACING_PACKAGES = [
  '@opentelemetry/api',
  '@opentelemetry/core',
  '@opentelemetry/exporter-trace-otlp-grpc',
  '@opentelemetry/exporter-trace-otlp-proto',
  '@opentelemetry/propagator-b3',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace-node',
];

/** The names of a store's spans; none for counters in memory. */
const storeSpans = {
  memory: undefined,
  redis: 'Redis Pipeline Execution',
  memcache: 'Memcached Fetch Execution',
} as const;

/**
 * Starts tracing. OpenTelemetry is loaded only here.
 *
 * @throws CannotStart if it is not installed
 */
export const openTracing =
  (options: NonNullable<Settings['tracing']>): OpenDeciderPart =>
  async ({ core: { store } }, { counters }, { background }) => {
    const { startTracing } = await import('./tracing.ts').catch(refuseMissingPackage);
    const { service, routes, backend, close } = await start('TRACING_ENABLED', 'cannot start tracing', async () =>
      startTracing(options, background.add('traces', 'sending traces')),
    );
    const spanName = storeSpans[counters.store.kind];
    return { service, pages: routes, start: () => spanName && store.ledger.traceWith(backend(spanName)), close };
  };

function refuseMissingPackage(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  throw new CannotStart(
    `TRACING_ENABLED: OpenTelemetry is not installed: npm install ${TRACING_PACKAGES.join(' ')} (${error.message})`,
  );
}
