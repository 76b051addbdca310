import type { WireRequest } from '../../edge/wire/wire.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';

/** A question of operators. */
export interface ExplainQuestion {
  readonly request: WireRequest;
  /** Its descriptors may be those of counters, without ids of requests. */
  readonly isCounted: boolean;
}

/** Explains requests by the counters of this process. */
export const openExplain: OpenDeciderPart = ({ core: { decider, extras } }) => ({
  asked: async ({ request, isCounted }: ExplainQuestion) => {
    const { explain, withMissingIds } = await import('./explain.ts'); // loaded at the first question
    return explain(isCounted ? withMissingIds(request, decider.rules()) : request, { decider, extras });
  },
});
