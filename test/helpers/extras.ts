import { createResponseHeaders } from '../../src/edge/rls/headers.ts';
import { createDynamicMetadata } from '../../src/edge/rls/metadata.ts';
import type { Extras } from '../../src/edge/rls/service.ts';

/** Only our own metadata and the header `soft`, which names rules whose soft part admitted a request; or `changes`. */
export const extrasOf = (changes: Partial<HeaderOptions> = {}, { ofRequest = false, ofRule = false } = {}): Extras => ({
  headers: createResponseHeaders({ ...noHeaders, ...changes }),
  metadata: createDynamicMetadata({ ofRequest, ofRule }),
});

type HeaderOptions = Parameters<typeof createResponseHeaders>[0];

const noHeaders: HeaderOptions = {
  limits: undefined,
  ofEveryDescriptor: false,
  ietf: false,
  retryAfter: [],
  soft: 'soft',
  wouldRefuse: '',
  maxWaitMs: 24 * 86_400_000,
  quotaMode: false,
};
