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
