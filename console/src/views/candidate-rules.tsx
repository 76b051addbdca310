import type { TriedCandidate, TriedKeys, TriedRule } from '../../../src/operate/answers/rules.ts';
import { exact } from '../format.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { DescriptorOrHash, Empty, Value } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';

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
      <table class="wide tried">
        <thead>
          <tr>
            <th scope="col">Rule</th>
            <th scope="col" class="number">
              Requests
            </th>
            <th scope="col" class="number">
              Refused now
            </th>
            <th scope="col" class="number">
              Newly refused
            </th>
            <th scope="col" class="number">
              Newly passed
            </th>
            <th scope="col">Changed requests by key</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <Row key={rule.rule} rule={rule} domains={domains} />
          ))}
        </tbody>
      </table>
      {moreRules > 0 && <p class="dim">{exact(moreRules)} more rules changed less.</p>}
    </>
  );
}

function Row({ rule, domains }: { readonly rule: TriedRule; readonly domains: readonly string[] }) {
  const { rule: path, inLive, inCandidate, newlyRefused, newlyPassed, newlyRefusedKeys, newlyPassedKeys } = rule;
  const domain = domainOf(path, domains);
  const isChanged = newlyRefused + newlyPassed > 0;
  return (
    <tr>
      <th scope="row">
        {inLive ? (
          <a href={linkTo('rule', { path })}>
            <Value text={path} />
          </a>
        ) : (
          <Value text={path} />
        )}
        {!inCandidate && <div class="dim">not in the candidate</div>}
        {!inLive && <div class="dim">only in the candidate</div>}
      </th>
      <td data-label="Requests" class="number">
        {exact(rule.requests)}
      </td>
      <td data-label="Refused now" class="number">
        {exact(rule.liveRefused)}
      </td>
      <td data-label="Newly refused" class={newlyRefused > 0 ? 'number bad' : 'number'}>
        {exact(newlyRefused)}
      </td>
      <td data-label="Newly passed" class="number">
        {exact(newlyPassed)}
      </td>
      <td data-label="Keys">
        {!isChanged && <span class="dim">none</span>}
        <Keys title="would be refused" keys={newlyRefusedKeys} domain={domain} />
        <Keys title="would pass" keys={newlyPassedKeys} domain={domain} />
      </td>
    </tr>
  );
}

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
