import type { Decision } from '../algorithms/limit.ts';
import type { Hit, Store, Unavailable } from './store.ts';

type Apply = Store['apply'];

/**
 * Applies hits that one step cannot take together: side by side, in parts. The decisions come back in the order of the hits.
 *
 * @param partOf   what the hits of a part have in common
 * @param applyOf  how a part is applied
 */
export async function applyInParts<P>(
  hits: readonly Hit[],
  how: Parameters<Apply>[1],
  partOf: (hit: Hit) => P,
  applyOf: (part: P) => Apply,
): Promise<readonly (Decision | Unavailable)[]> {
  const parts = new Map<P, Hit[]>();
  for (const hit of hits) {
    const part = partOf(hit);
    const known = parts.get(part);
    if (known) known.push(hit);
    else parts.set(part, [hit]);
  }
  const answers = await Promise.all(
    [...parts].map(async ([part, own]) => [part, (await applyOf(part)(own, how)).values()] as const),
  );
  const next = new Map(answers);
  return hits.flatMap((hit) => {
    const answer = next.get(partOf(hit))?.next();
    return answer?.done === false ? [answer.value] : [];
  });
}
