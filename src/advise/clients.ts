import type { Entry } from '../rules/match.ts';
import { hashOfText } from './key-sample.ts';

/** Keys of entries that name a client, rather than where it is or what it does: `user`, `x-api-key`, `tenant_id`. */
const NAMES_CLIENT =
  /(?:^|[^a-z])(?:user|account|customer|client|tenant|session|device|consumer|subject|sub|login|api[-_]?key|token)(?:[-_]?(?:id|name))?$/i;

interface Described {
  readonly entries: readonly Entry[];
}

/**
 * A hash of the client of each descriptor of a request, as far as another descriptor of the request names it: what is
 * behind an address. Undefined where its own entries name the client, or nothing does.
 */
export function clientsOf(descriptors: readonly Described[], seed: number): readonly (number | undefined)[] {
  let client: Entry | undefined;
  for (const { entries } of descriptors) client ??= entries.find(namesClient);
  if (!client) return [];
  const hash = hashOfText(seed, client.value);
  return descriptors.map(({ entries }) => (entries.some(namesClient) ? undefined : hash));
}

/** Keys are few: what has been found of one is remembered. */
const known = new Map<string, boolean>();
const MAX_KNOWN = 1_000;

function namesClient({ key }: Entry): boolean {
  const found = known.get(key);
  if (found !== undefined) return found;
  const names = NAMES_CLIENT.test(key);
  if (known.size < MAX_KNOWN) known.set(key, names);
  return names;
}
