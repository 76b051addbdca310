import { describeAllOverlaid } from '../read/overlaid.ts';
import { formatLine, shown } from '../read/problem.ts';
import type { Rule } from './tree.ts';

/** File and line of a rule, if it has them. */
export const placeFields = (place: Rule['place']): { readonly file?: string; readonly line?: number } => ({
  ...(place && { file: place.file }),
  ...(place?.line !== undefined && { line: place.line }),
});

/** `demo.user (rules.yaml:3)`, or with an overlay `demo.user (rules.yaml:3, overlaid: burst (overlay.yaml:7))`. */
export function describeRulePlace(rule: Pick<Rule, 'path' | 'place' | 'overlaid'>): string {
  const { path, place } = rule;
  const places = [...(place ? [formatLine(place)] : []), ...describeAllOverlaid(rule)];
  return `${shown(path)}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}
