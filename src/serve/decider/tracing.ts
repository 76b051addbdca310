import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart, start } from '../parts/start-up.ts';

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

/**
 * Starts tracing. OpenTelemetry is loaded only here.
 *
 * @throws CannotStart if it is not installed
 */
export async function openTracing(options: NonNullable<Settings['tracing']>, { background }: ProcessContext) {
  const { startTracing } = await import('../../operate/tracing/tracing.ts').catch(refuseMissingPackage);
  return start('TRACING_ENABLED', 'cannot start tracing', async () =>
    startTracing(options, background.add('traces', 'sending traces')),
  );
}

function refuseMissingPackage(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  throw new CannotStart(
    `TRACING_ENABLED: OpenTelemetry is not installed: npm install ${TRACING_PACKAGES.join(' ')} (${error.message})`,
  );
}
