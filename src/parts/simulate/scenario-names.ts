import type { Phase } from './upstream.ts';

/** The traffic models of `weir simulate`. */
export const scenarioNames = [
  'flash-sale',
  'scraper',
  'retry-storm',
  'nat',
  'cron',
  'diurnal',
  'credential-stuffing',
] as const;
export type ScenarioName = (typeof scenarioNames)[number];

/** What happens to a simulated upstream in the second of three phases. */
export const upstreamChanges = {
  halved: { working: 0.5 },
  slower: { slower: 2 },
  failing: { failing: 0.3 },
} as const satisfies Readonly<Record<string, Omit<Phase, 'forMs'>>>;
