import { every } from '../../base/clock.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { type RefusalKind, RefusalSample, wasSpared } from './refusals.ts';

/** Keeps the last refused requests, and as many that would have been refused. */
export const openRefusals =
  (max: number): OpenDeciderPart =>
  (_sources, _settings, { clock }) => {
    const refused = new RefusalSample(max, clock);
    const spared = new RefusalSample(max, clock, wasSpared);
    return {
      answered({ domain, descriptors: sent }, answer) {
        const descriptors = answer.unmet?.descriptors ?? sent;
        refused.answered(domain, descriptors, answer);
        spared.answered(domain, descriptors, answer);
      },
      asked: ({ of }: { readonly of: RefusalKind }) => (of === 'refused' ? refused : spared).report(),
      close: every(1_000, () => {
        refused.nextSecond();
        spared.nextSecond();
      }),
    };
  };
