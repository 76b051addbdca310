import type { WireRequest } from '../../../edge/wire/wire.ts';
import { type Entry, match } from '../../../engine/rules/match/match.ts';
import type { RuleTree } from '../../../engine/rules/match/tree.ts';

const TWO_TO_32 = 2 ** 32;

/**
 * Whether a request is recorded because the counter of one of its descriptors is sampled. Of any other counter, only
 * the requests that share a sampled one are recorded. Every process samples the same counters.
 *
 * @param sample  fraction of counters, above 0 and up to 1
 */
export const isSampled = (request: WireRequest, rules: RuleTree | undefined, sample: number): boolean =>
  sample >= 1 || sampledPositions(request, rules, sample).length > 0;

/** The positions of the descriptors whose counters are sampled. */
export const sampledPositions = (
  { domain, descriptors }: WireRequest,
  rules: RuleTree | undefined,
  sample: number,
): readonly number[] =>
  descriptors.flatMap(({ entries }, at) =>
    hashCounter(domain, countedBy(domain, entries, rules)) < sample * TWO_TO_32 ? at : [],
  );

/** The entries that name a descriptor's counter. */
function countedBy(domain: string, entries: readonly Entry[], rules: RuleTree | undefined): readonly Entry[] {
  const found = rules && match(rules, domain, { entries, requestLimit: undefined });
  return found?.kind === 'limited' ? found.entries : entries;
}

/** A 32-bit hash of the domain and entries that name a counter. */
export function hashCounter(domain: string, entries: readonly Entry[]): number {
  let mixed = mix(0x811c9dc5, domain);
  for (const { key, value } of entries) mixed = mix(mix(mixed, key), value);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** FNV-1a over characters, with an end mark. */
function mix(start: number, text: string): number {
  let mixed = start;
  for (let at = 0; at < text.length; at++) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193);
  return Math.imul(mixed ^ 0xffff, 0x01000193);
}
