import type { ExplainedDescriptor, ExplainedLimit, Explanation } from '../../../src/operate/answers/explain.ts';
import { explain } from '../api.ts';
import { algorithmText, duration, exact } from '../format.ts';
import { rules } from '../live.ts';
import { DescriptorForm, type DescriptorQuery } from '../parts/descriptor-form.tsx';
import { Drawing } from '../parts/drawing.tsx';
import { Empty, Failure, State, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, pairsParam, param, readPairs } from '../route.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

export function Explain() {
  const pairs = readPairs(param('pairs'));
  const domain = param('domain') ?? rules.value?.rules[0]?.domain ?? '';
  const hits = Number(param('hits') ?? 1) || 1;
  const { data, error, refresh } = usePoll(
    () => explain(domain, pairs ?? [], hits),
    pairs && pairs.length > 0 && seesValues.value ? [domain, pairs, hits] : undefined,
  );
  const submit = (asked: DescriptorQuery): void => {
    const next = linkTo('explain', {
      domain: asked.domain,
      pairs: pairsParam(asked.entries),
      hits: asked.hits === 1 ? undefined : String(asked.hits),
    });
    if (next === location.hash) refresh();
    else location.hash = next;
  };
  return (
    <>
      <h1>Explain</h1>
      <p>The current answer to a request, and the reason. Nothing is counted.</p>
      {seesValues.value ? (
        <DescriptorForm
          key={`${param('domain')} ${param('pairs')} ${hits}`}
          initial={{ domain, entries: pairs ?? [], hits }}
          action="Explain"
          withHits
          onSubmit={submit}
        />
      ) : (
        <SignInNeeded what="Explain" />
      )}
      <Failure message={error?.message} />
      <div aria-live="polite" class="stack">
        {data && <Answered answer={data} domain={domain} hits={hits} />}
      </div>
      {!data && !error && seesValues.value && (
        <Empty title="Enter the descriptor of a request.">
          <p>
            Links named Explain, on <a href={linkTo('overview')}>Overview</a> and{' '}
            <a href={linkTo('unmatched')}>Unmatched</a>, fill in this form.
          </p>
        </Empty>
      )}
    </>
  );
}

function Answered({
  answer,
  domain,
  hits,
}: {
  readonly answer: Explanation;
  readonly domain: string;
  readonly hits: number;
}) {
  const { status, decision, error, descriptors, rules: from } = answer;
  const isRefused = status === 429;
  return (
    <>
      <section class="panel" aria-label="Answer">
        <p class="verdict">
          <State is={status === 400 ? 'warn' : isRefused ? 'bad' : 'good'}>
            {status === 400 ? 'No answer' : isRefused ? 'Refused' : 'Passes'}
          </State>{' '}
          {error !== undefined ? <Value text={error} whole /> : decision && `${sentence(decision.why)}.`}
          {isRefused && decision && (
            <>
              {' '}
              {decision.passesInMs === null ? 'It can never pass.' : `It passes in ${duration(decision.passesInMs)}.`}
            </>
          )}
          {decision && decision.delayMs > 0 && ` It is held for ${duration(decision.delayMs)}.`}
        </p>
        {from && (
          <p class="dim">
            Rules from <Value text={from.source} whole />.
          </p>
        )}
      </section>
      {descriptors.map((descriptor, at) => (
        <Explained key={at} descriptor={descriptor} domain={domain} hits={hits} />
      ))}
    </>
  );
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

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

function Explained({
  descriptor,
  domain,
  hits,
}: {
  readonly descriptor: ExplainedDescriptor;
  readonly domain: string;
  readonly hits: number;
}) {
  const { entries, path, stopped, limits, outcome, rule, override } = descriptor;
  return (
    <>
      <section class="panel">
        <h2>Path through the rules</h2>
        <ol class="path">
          <li>
            <span class="node">
              <span class="dim">domain</span> <Value text={domain} />
            </span>
          </li>
          {path.map(({ level, entry, tried, more }) => (
            <li key={level}>
              <span class="node">
                <span class="dim">level {level}</span> <Value text={entry.key} />
                <span class="dim">=</span>
                <Value text={entry.value} />
              </span>
              <ul class="candidates">
                {tried.map((candidate, at) => (
                  <li key={at}>
                    <State is={candidate.matched ? 'good' : 'plain'}>
                      {candidate.matched ? 'chosen' : 'passed over'}
                    </State>{' '}
                    <Value
                      text={
                        candidate.value === undefined
                          ? `${candidate.key} (any value)`
                          : `${candidate.key}=${candidate.value}`
                      }
                    />
                    {candidate.reason && <span class="dim"> {reasonTexts[candidate.reason]}</span>}
                    {candidate.offset !== undefined && <span class="dim"> at character {candidate.offset}</span>}
                  </li>
                ))}
                {more > 0 && <li class="dim">{exact(more)} more</li>}
              </ul>
            </li>
          ))}
          <li>
            <span class="node">
              {rule === undefined ? (
                <State is="warn">{outcomes[outcome]}</State>
              ) : (
                <>
                  <span class="dim">rule</span> <a href={linkTo('rule', { path: rule })}>{rule}</a>{' '}
                  <span class="dim">{outcomes[outcome]}</span>
                </>
              )}
            </span>
          </li>
        </ol>
        {stopped && (
          <p>
            <Value text={`${sentence(stopped.why)}.`} whole />
          </p>
        )}
        {override && (
          <p class="notice warn">
            Override by {override.by}: <strong>{override.effect}</strong> until{' '}
            {new Date(override.until).toLocaleString()}. {override.reason}
          </p>
        )}
      </section>
      {limits.length > 0 && (
        <section class="panel">
          <div class="row">
            <h2>{limits.length === 1 ? 'Limit' : 'Limits'}</h2>
            <a href={linkTo('key', { domain, pairs: pairsParam(entries) })}>Counters and changes</a>
          </div>
          {limits.map((limit, at) => (
            <LimitExplained key={at} limit={limit} hits={hits} />
          ))}
        </section>
      )}
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

function LimitExplained({ limit, hits }: { readonly limit: ExplainedLimit; readonly hits: number }) {
  const { code, arithmetic, before, drawing, source, failure, retryAfterMs, shadow, soft, replacedBy, file, line } =
    limit;
  const isOver = code === 'OVER_LIMIT';
  const text = `${exact(before?.used ?? 0)} used, ${exact(hits)} requested: ${arithmetic ?? ''}`;
  return (
    <article class="limit-explained">
      <p>
        {code && (
          <State is={isOver ? (shadow ? 'warn' : 'bad') : 'good'}>
            {isOver ? (shadow ? 'Over, in shadow mode' : 'Over the limit') : 'Has room'}
          </State>
        )}{' '}
        <strong>{limit.limit.replace(/ by \w+(?=$|,)/, '')}</strong>{' '}
        <span class="dim">{algorithmText(limit.algorithm)}</span>
        {file !== undefined && (
          <span class="dim">
            {' '}
            {file}
            {line !== undefined && `:${line}`}
          </span>
        )}
      </p>
      {replacedBy && <p>Replaced by {replacedBy.join(', ')}.</p>}
      {limit.active !== undefined && <p class="dim">Active {limit.active}.</p>}
      {limit.inactive && <p>Does not apply at this time.</p>}
      {drawing && before && (
        <Drawing
          drawing={drawing}
          used={before.used}
          hits={hits}
          isOver={isOver}
          resetsInMs={before.resetsInMs}
          text={text}
        />
      )}
      {arithmetic !== undefined && (
        <p>
          <code class="arithmetic">{arithmetic}</code> {wordsFor(arithmetic)}
        </p>
      )}
      <p class="dim">
        {source !== undefined && source !== 'backend' && `Answered from ${sourceTexts[source]}. `}
        {failure !== undefined && `The counter cannot be read: ${failure}. `}
        {soft && 'Passes on the soft part of the limit. '}
        {isOver &&
          retryAfterMs !== undefined &&
          (retryAfterMs === null
            ? 'The same request can never pass.'
            : `The same request passes in ${duration(retryAfterMs)}.`)}
      </p>
    </article>
  );
}

const sourceTexts = {
  lease: 'a lease of this process',
  refusal: 'a remembered refusal',
  allow: 'on_store_failure: allow',
  deny: 'on_store_failure: deny',
  local: 'on_store_failure: local',
} as const;

/** The comparison in words: used and requested hits against the limit. */
function wordsFor(arithmetic: string): string {
  if (arithmetic.includes('>')) return 'used and requested together exceed the limit';
  return arithmetic.includes('≤') ? 'used and requested are within the limit' : '';
}
