import type { Entry } from './match.ts';
import type { RuleTree } from './tree.ts';

/**
 * The descriptors that have these entries plus ids, and therefore the same counters.
 *
 * @param value  of the ids
 */
export const withIds = (
  rules: RuleTree,
  domain: string,
  entries: readonly Entry[],
  value = '',
): readonly (readonly Entry[])[] =>
  (rules.domains.get(domain)?.ids ?? []).flatMap((ids) => {
    const sent = [...entries];
    for (const { at, key } of ids) sent.splice(at, 0, { key, value });
    return ids.every(({ at, key }) => sent[at]?.key === key) ? [sent] : [];
  });
