import type { RefusedClient } from '../../../src/parts/console/answers.ts';
import { rules } from '../live.ts';
import { linkTo, type Pair, pairsParam } from '../route.ts';
import { DescriptorOrHash } from './texts.tsx';

/** The domain of a rule: names may have dots, so the rules are searched first. */
export const domainOf = (path: string): string =>
  rules.value?.rules.find((rule) => rule.path === path)?.domain ?? path.split('.')[0] ?? '';

/** The address of a client's page. @param change  the change whose dialog is opened */
export const linkToClient = (domain: string, entries: readonly Pair[], change?: string): string =>
  linkTo('client', { domain, pairs: pairsParam(entries), change });

/** A client of a rule, as a link to its page unless its values are hashed or cut. */
export function ClientLink({
  rule,
  entries,
  descriptor,
  cut,
}: Pick<RefusedClient, 'rule' | 'descriptor' | 'entries' | 'cut'>) {
  const shown = <DescriptorOrHash descriptor={descriptor} {...(entries && { entries })} />;
  return entries && !cut ? <a href={linkToClient(domainOf(rule), entries)}>{shown}</a> : shown;
}

/** Replaces lists of clients if they are off. */
export const ClientsNotCounted = () => (
  <p class="dim">
    Clients are not counted, since <code>TOP_KEYS_BYTES</code> is 0.
  </p>
);
