import type { Settings } from '../settings.ts';
import type { ProcessContext } from './parts.ts';

/** Starts tracing. OpenTelemetry is loaded only here. */
export async function openTracing(options: NonNullable<Settings['tracing']>, { clock, log }: ProcessContext) {
  const { startTracing } = await import('../observe/tracing.ts');
  return startTracing(options, clock, (problem) => log.warn(problem));
}
