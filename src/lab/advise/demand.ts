import type { AlgorithmName } from '../../engine/algorithms/index.ts';
import type { KeyArrivals } from './key-arrivals.ts';

/** Algorithms that count hits in windows. */
export type WindowAlgorithm = Extract<
  AlgorithmName,
  'fixed_window' | 'sliding_window_log' | 'sliding_window_counter' | 'sliding_window_buckets'
>;

const windowDemands: Readonly<Record<WindowAlgorithm, (key: KeyArrivals) => number>> = {
  fixed_window: ({ busiest }) => busiest,
  sliding_window_counter: ({ busiestSliding }) => busiestSliding,
  sliding_window_log: (key) => key.mostWithin(1),
  sliding_window_buckets: (key) => key.mostWithin(1),
};

export const isWindowAlgorithm = (name: string): name is WindowAlgorithm => Object.hasOwn(windowDemands, name);

/** The smallest limit that refuses none of a key's hits under an algorithm; for logs and buckets, an upper bound. */
export const windowDemand = (algorithm: WindowAlgorithm, key: KeyArrivals): number => windowDemands[algorithm](key);
