import type { WireRequest } from '../../edge/wire/wire.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';

/** Explains requests by the counters of this process. */
export const openExplain: OpenDeciderPart = ({ core: { decider, extras } }) => ({
  asked: async ({ request }: { readonly request: WireRequest }) =>
    (await import('./explain.ts')).explain(request, { decider, extras }), // loaded at the first question
});
