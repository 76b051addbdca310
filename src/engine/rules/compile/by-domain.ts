import type { Domain } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { format } from '../read/format.ts';
import type { MayBeOverlaid, Overlaid } from '../read/overlaid.ts';
import type { Place, Problems } from '../read/problem.ts';

/** What the files of a domain say together. */
export interface WrittenDomain extends MayBeOverlaid {
  /** Where a file first names it. */
  readonly place: Place;
  readonly nodes: readonly Block<'node'>[];
  readonly spend: Domain['spend'];
}

interface Parts extends WrittenDomain {
  readonly nodes: Block<'node'>[];
  spend: Domain['spend'];
  overlaid?: readonly Overlaid[] | undefined;
}

/**
 * Groups the files by domain.
 *
 * @param mergeDomains  merges files of the same domain, in the order given, instead of refusing them
 */
export function groupByDomain(
  blocks: readonly Block<'file'>[],
  mergeDomains: boolean,
  problems: Problems,
): ReadonlyMap<string, WrittenDomain> {
  const byDomain = new Map<string, Parts>();
  for (const block of blocks) {
    const { domain = '', descriptors = [] } = block.values;
    const known = byDomain.get(domain);
    if (domain === '' && !block.invalid.has('domain')) {
      problems.error(block.place('domain'), 'config file cannot have empty domain: expected a name, got nothing');
    } else if (domain !== '' && known && !mergeDomains) {
      const hint = 'give each domain one file, or set MERGE_DOMAIN_CONFIG=true';
      problems.error(block.place('domain'), `duplicate domain '${domain}' in config file: ${hint}`);
    }
    const spend = readSpend(block, problems);
    if (known?.spend && spend && known.spend !== spend) {
      problems.error(
        block.place('spend'),
        `spend must be the same in all files of domain '${domain}', got ${known.spend} and ${spend}`,
      );
    }
    const parts: Parts = known ?? { place: block.place('domain'), nodes: [], spend: undefined };
    byDomain.set(domain === '' ? `(${block.place().file})` : domain, parts);
    for (const node of descriptors) parts.nodes.push(node);
    parts.spend = spend ?? parts.spend;
    if (block.overlaid) parts.overlaid = block.overlaid;
  }
  return byDomain;
}

function readSpend({ values: { spend: written }, place }: Block<'file'>, problems: Problems): Domain['spend'] {
  const { choices } = format.file.spend;
  const spend = choices.find((one) => one === written);
  if (written !== undefined && !spend)
    problems.error(place('spend'), `spend must be one of ${choices.join(', ')}, got '${written}'`);
  return spend;
}
