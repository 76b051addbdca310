import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { ArrivalLog, type ArrivalSample } from './arrival-log.ts';

/** Keeps arrivals for the process that aggregates them. */
export const openArrivals: OpenDeciderPart = (_sources, _settings, { clock }) => {
  const arrivals = new ArrivalLog(clock);
  return {
    answered: (request, answer) => arrivals.answered(request, answer),
    asked: (sample: ArrivalSample) => arrivals.take(sample),
  };
};
