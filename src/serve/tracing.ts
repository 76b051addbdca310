import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Settings } from '../settings.ts';
import { CannotStart } from './cannot-start.ts';

/** The packages that tracing needs beside this one: its optional peers. */
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
 * Starts tracing if it is enabled. OpenTelemetry is loaded only then.
 *
 * @throws CannotStart if OpenTelemetry is not installed
 */
export async function openTracing(settings: Settings, clock: Clock, log: Logger) {
  if (!settings.TRACING_ENABLED) return undefined;
  const { startTracing } = await import('../observe/tracing.ts').catch(refuseMissingPackage);
  const options = {
    protocol: settings.TRACING_EXPORTER_PROTOCOL,
    samplingRate: settings.TRACING_SAMPLING_RATE,
    serviceName: settings.TRACING_SERVICE_NAME,
    serviceNamespace: settings.TRACING_SERVICE_NAMESPACE,
    serviceInstanceId: settings.TRACING_SERVICE_INSTANCE_ID,
  };
  return startTracing(options, clock, (problem) => log.warn(problem));
}

function refuseMissingPackage(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  throw new CannotStart(
    `TRACING_ENABLED: OpenTelemetry is not installed: npm install ${TRACING_PACKAGES.join(' ')} (${error.message})`,
  );
}
