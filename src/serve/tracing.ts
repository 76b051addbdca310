import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Settings } from '../settings.ts';

/** Starts tracing if it is enabled. OpenTelemetry is loaded only then. */
export async function openTracing(settings: Settings, clock: Clock, log: Logger) {
  if (!settings.TRACING_ENABLED) return undefined;
  const { startTracing } = await import('../observe/tracing.ts');
  const options = {
    protocol: settings.TRACING_EXPORTER_PROTOCOL,
    samplingRate: settings.TRACING_SAMPLING_RATE,
    serviceName: settings.TRACING_SERVICE_NAME,
    serviceNamespace: settings.TRACING_SERVICE_NAMESPACE,
    serviceInstanceId: settings.TRACING_SERVICE_INSTANCE_ID,
  };
  return startTracing(options, clock, (problem) => log.warn(problem));
}
