import type { TriedCandidate, TriedKeys, TriedRule } from '../../../src/parts/candidate/answers.ts';
import { exact } from '../format.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { DescriptorOrHash, Empty, RuleLink, Value } from '../parts/texts.tsx';

/** The changes by the candidate for each rule, largest first. */
export function TriedRules({ candidate }: { readonly candidate: TriedCandidate }) {
  const { rules, moreRules, domains } = candidate;
  if (rules.length === 0)
    return (
      <section class="panel">
        <Empty title="No request has been tried yet.">
          <p>Requests of the candidate's domains appear here within a second.</p>
        </Empty>
      </section>
    );
  return (
    <>
      <Table class="tried" rows={rules} columns={columns(domains)} keyOf={({ rule }) => rule} />
      {moreRules > 0 && <p class="dim">{exact(moreRules)} more rules changed less.</p>}
    </>
  );
}

const columns = (domains: readonly string[]): readonly Column<TriedRule>[] => [
  {
    name: 'Rule',
    isHead: true,
    cell: ({ rule: path, inLive, inCandidate }) => (
      <>
        {inLive ? <RuleLink path={path} /> : <Value text={path} />}
        {!inCandidate && <div class="dim">not in the candidate</div>}
        {!inLive && <div class="dim">only in the candidate</div>}
      </>
    ),
  },
  { name: 'Requests', class: 'number', cell: ({ requests }) => exact(requests) },
  { name: 'Refused now', class: 'number', cell: ({ liveRefused }) => exact(liveRefused) },
  {
    name: 'Newly refused',
    class: 'number',
    tone: ({ newlyRefused }) => (newlyRefused > 0 ? 'bad' : undefined),
    cell: ({ newlyRefused }) => exact(newlyRefused),
  },
  { name: 'Newly passed', class: 'number', cell: ({ newlyPassed }) => exact(newlyPassed) },
  {
    name: 'Changed requests by key',
    label: 'Keys',
    cell: ({ rule, newlyRefused, newlyPassed, newlyRefusedKeys, newlyPassedKeys }) => (
      <>
        {newlyRefused + newlyPassed === 0 && <span class="dim">none</span>}
        <Keys title="would be refused" keys={newlyRefusedKeys} domain={domainOf(rule, domains)} />
        <Keys title="would pass" keys={newlyPassedKeys} domain={domainOf(rule, domains)} />
      </>
    ),
  },
];

function Keys({
  title,
  keys: { count, isAtLeast, unlistedAtMost, keys },
  domain,
}: {
  readonly title: string;
  readonly keys: TriedKeys;
  readonly domain: string | undefined;
}) {
  if (count === 0) return null;
  const more = count - keys.length;
  return (
    <div>
      <div class="dim">
        {isAtLeast && 'at least '}
        {exact(count)} {count === 1 ? 'key' : 'keys'} {title}
      </div>
      <ul class="keys">
        {keys.map((key) => (
          <li key={`${key.rule ?? ''} ${key.descriptor}`}>
            <span class="number">{exact(key.hits)}</span>
            <span>
              {key.entries && !key.cut && domain !== undefined ? (
                <a href={linkToClient(domain, key.entries)}>
                  <DescriptorOrHash {...key} />
                </a>
              ) : (
                <DescriptorOrHash {...key} />
              )}
              {key.atMostTooHighBy > 0 && <span class="dim"> (at most {exact(key.atMostTooHighBy)} too high)</span>}
            </span>
          </li>
        ))}
      </ul>
      {more > 0 && (
        <div class="dim">
          {isAtLeast && 'at least '}
          {exact(more)} more{unlistedAtMost > 0 && `, with ${exact(unlistedAtMost)} or fewer each`}
        </div>
      )}
    </div>
  );
}

/** The longest domain that the path of a rule begins with. */
const domainOf = (path: string, domains: readonly string[]): string | undefined =>
  domains.filter((name) => path.startsWith(`${name}.`)).sort((one, other) => other.length - one.length)[0];
