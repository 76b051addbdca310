import { type CompilePattern, type Mogrifier, parseMogrifiers } from '../operate/observe/mogrifier.ts';
import type { Values } from './table.ts';

/** The sink of statistics. */
export type SinkSettings =
  | { readonly kind: 'none' }
  | { readonly kind: 'statsd' }
  | { readonly kind: 'dogstatsd'; readonly mogrifiers: readonly Mogrifier[] }
  | { readonly kind: 'prometheus' };

/**
 * Chooses at most one sink, as in envoyproxy/ratelimit; by default StatsD. Conflicting settings are added to
 * `problems`.
 */
export function chooseSink(
  values: Values,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
  compile: CompilePattern,
): SinkSettings {
  const { DISABLE_STATS, USE_STATSD, USE_DOG_STATSD, USE_PROMETHEUS } = values;
  if (DISABLE_STATS) return { kind: 'none' };
  const enabled = Object.entries({ USE_STATSD, USE_DOG_STATSD, USE_PROMETHEUS }).filter(([, isOn]) => isOn);
  if (enabled.length > 1) {
    problems.push(`one of USE_STATSD, USE_DOG_STATSD and USE_PROMETHEUS may be true, got ${enabled.length} of them`);
    return { kind: 'none' };
  }
  if (USE_PROMETHEUS) return { kind: 'prometheus' };
  if (USE_DOG_STATSD) {
    const parsed = parseMogrifiers(values.USE_DOG_STATSD_MOGRIFIERS, env, compile);
    if (!parsed.ok) problems.push(...parsed.problems);
    return { kind: 'dogstatsd', mogrifiers: parsed.ok ? parsed.mogrifiers : [] };
  }
  return { kind: (USE_STATSD ?? true) ? 'statsd' : 'none' };
}
