import type { TracedLevel } from '../../../src/edge/listing/shapes.ts';
import type { ExplainedDescriptor } from '../../../src/parts/lab/answers/explain.ts';
import { exact } from '../format.ts';
import { State, Value } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';

const outcomes: Readonly<Record<ExplainedDescriptor['outcome'], string>> = {
  limited: 'a limit applies',
  overridden: 'an override applies',
  unlimited: 'the rule is unlimited',
  inactive: 'no limit of the rule applies at this time',
  replaced: 'another rule of the request replaces the limit',
  no_rule: 'no rule matches',
  no_domain: 'no rules have the domain',
  invalid_limit: 'the limit of the request is not valid',
};

interface MatchedPathProps {
  readonly descriptor: ExplainedDescriptor;
  readonly domain: string;
  readonly source: string | undefined;
}

/** The nodes of the rules that a descriptor matches, level by level. */
export function MatchedPath({ descriptor: { path, outcome, rule }, domain, source }: MatchedPathProps) {
  return (
    <section class="panel">
      <h2>Path through the rules</h2>
      <ol class="path">
        <li>
          <span class="dim">domain</span> <Value text={domain} />
        </li>
        {path.map((level) => (
          <Level key={level.level} {...level} />
        ))}
        <li>
          {rule === undefined ? (
            <State is="warn">{outcomes[outcome]}</State>
          ) : (
            <>
              <span class="dim">rule</span> <a href={linkTo('rule', { path: rule })}>{rule}</a>{' '}
              <span class="dim">{outcomes[outcome]}</span>
            </>
          )}
        </li>
      </ol>
      {source !== undefined && (
        <p class="dim">
          Rules from <Value text={source} whole />.
        </p>
      )}
    </section>
  );
}

function Level({ level, entry, tried, more }: TracedLevel) {
  const chosen = tried.find(({ matched }) => matched);
  const others = tried.filter(({ matched }) => !matched);
  return (
    <li>
      <span class="dim">level {level}</span> <Value text={entry.key} />
      <span class="dim">=</span>
      <Value text={entry.value} /> {chosen && <Candidate {...chosen} />}
      {others.length > 0 && (
        <details>
          <summary>
            {others.length + more === 1 ? 'One node' : `${exact(others.length + more)} nodes`} passed over
          </summary>
          <ul class="candidates">
            {others.map((one, at) => (
              <li key={at}>
                <Candidate {...one} />
              </li>
            ))}
            {more > 0 && <li class="dim">{exact(more)} more</li>}
          </ul>
        </details>
      )}
    </li>
  );
}

function Candidate({ key, value, matched, reason, offset }: TracedLevel['tried'][number]) {
  return (
    <>
      <State is={matched ? 'good' : 'plain'}>{matched ? 'matches' : 'passed over'}</State>{' '}
      <Value text={value !== undefined ? `${key}=${value}` : reason === 'no_such_key' ? key : `${key} (any value)`} />
      {reason && <span class="dim"> {reasonTexts[reason]}</span>}
      {offset !== undefined && <span class="dim"> at character {offset}</span>}
    </>
  );
}

const reasonTexts = {
  no_such_key: 'its key differs',
  value_differs: 'its value differs',
  address_outside: 'the value is no address in its blocks',
  longer_block_won: 'a longer block of addresses contains it',
  wildcard_fails: 'the pattern stops matching',
  earlier_wildcard_won: 'an earlier pattern matches',
  more_specific_won: 'an exact value, a block of addresses or a pattern is preferred',
} as const;
