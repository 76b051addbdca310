import type { Entry } from '../../engine/rules/match/match.ts';
import { mixed } from '../lab/sketches/top-name.ts';

/** A hash of 32 bits, each of which depends on the whole text. @see https://doi.org/10.5281/zenodo.1241418 */
function hashText(seed: number, text: string): number {
  let hash = mixed(seed, text);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Whether a key is in a sample of one in 2^level keys, which hold if its hash begins with that number of zero bits. */
export const isSampled = (seed: number, key: string, level: number): boolean =>
  level === 0 || hashText(seed, key) < 2 ** (32 - level);

/** Keys of entries that identify a client, not its location or action: `user`, `x-api-key`, `tenant_id`. */
const NAMES_CLIENT =
  /(?:^|[^a-z])(?:user|account|customer|client|tenant|session|device|consumer|subject|sub|login|api[-_]?key|token)(?:[-_]?(?:id|name))?$/i;

interface Described {
  readonly entries: readonly Entry[];
}

/**
 * For each descriptor of a request, a hash of the client that another descriptor names, such as a user behind an
 * address. Undefined if the descriptor itself names a client, or none does.
 */
export function identifyClients(descriptors: readonly Described[], seed: number): readonly (number | undefined)[] {
  let client: Entry | undefined;
  for (const { entries } of descriptors) client ??= entries.find(namesClient);
  if (!client) return [];
  const hash = hashText(seed, client.value);
  return descriptors.map(({ entries }) => (entries.some(namesClient) ? undefined : hash));
}

const namesClient = ({ key }: Entry): boolean => NAMES_CLIENT.test(key);
