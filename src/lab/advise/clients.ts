import type { Entry } from '../../engine/rules/match/match.ts';
import { hashOfText } from './key-sample.ts';

/** Keys of entries that identify a client, not its location or action: `user`, `x-api-key`, `tenant_id`. */
const NAMES_CLIENT =
  /(?:^|[^a-z])(?:user|account|customer|client|tenant|session|device|consumer|subject|sub|login|api[-_]?key|token)(?:[-_]?(?:id|name))?$/i;

interface Described {
  readonly entries: readonly Entry[];
}

/**
 * For each descriptor of a request, a hash of the client that another descriptor of the request names, such as a user
 * behind an address. Undefined if the descriptor itself names a client, or none does.
 */
export function clientsOf(descriptors: readonly Described[], seed: number): readonly (number | undefined)[] {
  let client: Entry | undefined;
  for (const { entries } of descriptors) client ??= entries.find(namesClient);
  if (!client) return [];
  const hash = hashOfText(seed, client.value);
  return descriptors.map(({ entries }) => (entries.some(namesClient) ? undefined : hash));
}

/** A cache by key: there are few different keys. */
const known = new Map<string, boolean>();
const MAX_KNOWN = 1_000;

function namesClient({ key }: Entry): boolean {
  const found = known.get(key);
  if (found !== undefined) return found;
  const names = NAMES_CLIENT.test(key);
  if (known.size < MAX_KNOWN) known.set(key, names);
  return names;
}
