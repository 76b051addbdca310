import { readFigures } from '../../src/operate/observe/figures.ts';
import type { InstanceFacts } from '../../src/operate/observe/table.ts';

/** An instance with counters in memory, without rules. */
export const idle: InstanceFacts = {
  isReady: true,
  figures: readFigures(),
  openCircuits: new Map(),
  store: undefined,
  background: [],
  sites: undefined,
  rules: undefined,
  inForce: undefined,
  restarts: 0,
  version: '1.2.3',
  unmatched: [],
  findings: new Map(),
  overrides: [],
  candidate: { isOn: false, report: undefined },
};

/** Its cache of refusals has been used: each figure is at least 1. */
export const usedCache = {
  ...{ cacheAccessTime: 0, cacheSize: 7, cacheEvicted: 2, cacheExpired: 3, cacheHits: 4, cacheLookups: 10 },
  ...{ cacheMisses: 6, cacheOverwritten: 1 },
};
