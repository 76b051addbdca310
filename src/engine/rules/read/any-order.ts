import type { Block } from './block.ts';
import { format } from './format.ts';
import { mapChanged } from './node-source.ts';
import { type Problems, shown } from './problem.ts';

/** Marks the nodes directly below each `match: any_order`. Errors go to `problems`. */
export function markAnyOrder<B extends Block<'file'> | Block<'node'>>(block: B, problems: Problems): B {
  const { match, descriptors }: Pick<Block<'node'>['values'], 'match' | 'descriptors'> = block.values;
  const isAnyOrder = match !== undefined && readMatch(block, match, problems);
  if (!descriptors) return block;
  const below = mapChanged(descriptors, (node) => {
    const marked = markAnyOrder(node, problems);
    return isAnyOrder ? { ...marked, values: { ...marked.values, anyOrder: true } } : marked;
  });
  return below === descriptors ? block : { ...block, values: { ...block.values, descriptors: below } };
}

function readMatch(block: Block<'file'> | Block<'node'>, match: string, problems: Problems): boolean {
  const place = block.place('match' as never); // both have it
  const { choices } = format.node.match;
  if (!choices.some((one) => one === match))
    problems.error(place, `match must be ${choices.join(' or ')}, got '${shown(match)}'`);
  else if (!block.values.descriptors && !block.invalid.has('descriptors'))
    problems.error(place, 'match goes with descriptors, whose keys it is about; got none');
  return match === 'any_order';
}
