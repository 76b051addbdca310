import { every } from '../../base/clock.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { SLOT_MS } from '../lab/sketches/rotating-top.ts';
import { Evidence } from './evidence.ts';

/** Collects evidence of mistakes in the configurations of proxies. */
export const openEvidence: OpenDeciderPart = (_sources, _settings, { clock }) => {
  const evidence = new Evidence(clock);
  const close = every(SLOT_MS, () => evidence.rotate());
  return { watch: evidence, asked: () => evidence.report(), close };
};
