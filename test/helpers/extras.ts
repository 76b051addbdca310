import { createResponseHeaders, type HeaderOptions } from '../../src/rls/headers.ts';
import { createDynamicMetadata } from '../../src/rls/metadata.ts';
import type { Extras } from '../../src/rls/service.ts';

/** No header but `soft` for rules on whose soft part a request passed, and our own metadata: but for the changes. */
export const extrasOf = (changes: Partial<HeaderOptions> = {}, { ofRequest = false } = {}): Extras => ({
  headers: createResponseHeaders({ ...noHeaders, ...changes }),
  metadata: createDynamicMetadata({ ofRequest }),
});

const noHeaders: HeaderOptions = {
  limits: undefined,
  ofEveryDescriptor: false,
  ietf: false,
  retryAfter: [],
  soft: 'soft',
  quotaMode: false,
};
