import type { LimitJson, ListedRule } from '../../../src/engine/rules/match/shapes.ts';
import type { Answers } from '../../../src/operate/answers/all.ts';
import { get } from '../api.ts';
import { algorithmText, duration, exact, limitText, time, usedShare } from '../format.ts';
import { ruleHistory, rules } from '../live.ts';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { ActionsHeading, Bounds, DescriptorOrHash, Empty, Estimates, Failure, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, pairsParam, param, replaceParams } from '../route.ts';
import { seesValues, session } from '../session.ts';
import { ProxyQuotas } from './proxy-quotas.tsx';
import { SignInNeeded } from './sign-in.tsx';
import { Slots } from './slots.tsx';

const lines: readonly SeriesLine[] = [
  { field: 'passed', label: 'passed', color: '--passed', isFilled: true },
  { field: 'refused', label: 'refused', color: '--bad', isFilled: true },
  { field: 'soft', label: 'soft', color: '--warn', isDashed: true },
  { field: 'shadow', label: 'shadow', color: '--dim', isDashed: true },
];

export function Rule() {
  const path = param('path') ?? '';
  const rule = rules.value?.rules.find((one) => one.path === path);
  const share = ruleHistory.value.get(path)?.share?.at(-1) ?? 0;
  return (
    <>
      <p>
        <a href={linkTo('rules')}>Rules</a>
      </p>
      <h1>
        <Value text={path} whole />
      </h1>
      {rules.value && !rule && (
        <Empty title="This rule is not among those in force.">
          <p>It may have been removed, or its statistics are named after the values of callers.</p>
        </Empty>
      )}
      {rule && (
        <section class="panel">
          <dl class="facts">
            <div>
              <dt>File</dt>
              <dd>
                {rule.file ?? 'none'}
                {rule.line !== undefined && `:${rule.line}`}
              </dd>
            </div>
            <div>
              <dt>Used</dt>
              <dd>
                <span class="number">{usedShare(share)}</span>{' '}
                <span class="dim">of the limit, by the fullest counter in the last minute</span>
              </dd>
            </div>
            {rule.schedule && <ScheduleFacts schedule={rule.schedule} />}
            {rules.value?.reload && <CounterFacts path={path} reload={rules.value.reload} />}
            {rule.replaces && rule.replaces.length > 0 && (
              <div>
                <dt>Replaces</dt>
                <dd>{rule.replaces.join(', ')}</dd>
              </div>
            )}
          </dl>
        </section>
      )}
      {rule?.limits
        .filter(({ algorithm }) => algorithm === 'in_flight')
        .map((limit, at) => (
          <Slots key={at} path={path} limit={limit} />
        ))}
      <section class="panel">
        <SeriesPlot title="Passed and refused" rule={path} lines={lines} unit="per s" />
      </section>
      {rule && !rule.unlimited && (
        <section class="panel">
          <h2>Limits</h2>
          {rule.limits.some(({ algorithm }) => algorithm !== 'in_flight') && (
            <p class="dim">The drawings show how an algorithm decides, with example numbers.</p>
          )}
          <div class="limits">
            {rule.limits.map((limit, at) => (
              <LimitFacts key={at} limit={limit} isNow={rule.schedule?.now.includes(at)} />
            ))}
          </div>
        </section>
      )}
      {rule?.unlimited && (
        <section class="panel">
          <h2>Limits</h2>
          <p>Unlimited: every request passes, and none is counted.</p>
        </section>
      )}
      {session.value?.hasQuotas && <ProxyQuotas rule={path} />}
      <TopKeys path={path} domain={rule?.domain ?? path.split('.')[0] ?? ''} />
    </>
  );
}

function ScheduleFacts({ schedule }: { readonly schedule: NonNullable<ListedRule['schedule']> }) {
  const { now, changes_at_ms: changesAtMs } = schedule;
  return (
    <div>
      <dt>Schedule</dt>
      <dd>
        {now.length === 0 ? 'no limit applies now' : 'limits depend on the time'},{' '}
        <span class="dim">
          {changesAtMs === undefined ? 'with no further changes' : `next change ${time(changesAtMs)}`}
        </span>
      </dd>
    </div>
  );
}

/** The effect of the last reload on the rule's counters. */
function CounterFacts({
  path,
  reload,
}: {
  readonly path: string;
  readonly reload: NonNullable<Answers['GET /api/v1/rules']['reload']>;
}) {
  const isKept = reload.counters_kept.includes(path);
  if (!isKept && !reload.counters_anew.includes(path)) return null;
  return (
    <div>
      <dt>Changed</dt>
      <dd>
        {time(reload.at_ms)}: <span class="dim">{isKept ? 'counters were kept' : 'counters were restarted'}</span>
      </dd>
    </div>
  );
}

const policyTexts: readonly (readonly [string, (limit: LimitJson) => string | undefined])[] = [
  ['Burst', ({ burst }) => (burst === undefined ? undefined : exact(burst))],
  ['Soft', ({ soft }) => (soft > 0 ? `${exact(soft)} hits beyond the limit` : undefined)],
  ['Store failure', ({ on_store_failure }) => on_store_failure],
  ['Consistency', ({ consistency }) => consistency],
  ['Shadow mode', ({ shadow_mode }) => (shadow_mode ? 'on: refuses nothing' : undefined)],
  ['Quota mode', ({ quota_mode }) => (quota_mode ? 'on' : undefined)],
  ['Active', ({ active }) => active],
  ['On change', ({ on_change }) => on_change],
];

/** @param isNow  undefined: the limit always applies */
function LimitFacts({ limit, isNow }: { readonly limit: LimitJson; readonly isNow: boolean | undefined }) {
  return (
    <figure class="limit">
      {limit.algorithm !== 'in_flight' && (
        <img
          src={`${limit.algorithm.replaceAll('_', '-')}.svg`}
          alt={`How a ${algorithmText(limit.algorithm)} decides, over time`}
        />
      )}
      <figcaption>
        <strong>{limitText(limit)}</strong> <span class="dim">{algorithmText(limit.algorithm)}</span>{' '}
        {isNow !== undefined && <span class={isNow ? undefined : 'dim'}>{isNow ? 'applies now' : 'not now'}</span>}
        <dl class="facts">
          {limit.name !== undefined && (
            <div>
              <dt>Name</dt>
              <dd>{limit.name}</dd>
            </div>
          )}
          <div>
            <dt>{limit.algorithm === 'in_flight' ? 'ttl of a slot' : 'Window'}</dt>
            <dd>{duration(limit.window_ms)}</dd>
          </div>
          {policyTexts.map(([name, of]) => {
            const text = of(limit);
            return (
              text !== undefined && (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{text}</dd>
                </div>
              )
            );
          })}
        </dl>
      </figcaption>
    </figure>
  );
}

const topChoices = [
  { name: 'refusals', label: 'Most refused', empty: 'No refusal in the last minute.' },
  { name: 'hits', label: 'Most hits', empty: 'No hit in the last minute.' },
  { name: 'shadowed', label: 'Most in shadow mode', empty: 'Shadow mode let no hit pass in the last minute.' },
] as const;

function TopKeys({ path, domain }: { readonly path: string; readonly domain: string }) {
  const by = topChoices.find(({ name }) => name === param('by'))?.name ?? 'refusals';
  const isHashed = session.value?.hashKeys ?? false;
  const { data, error } = usePoll(
    () => get('top', { by, rule: path, count: '20' }),
    seesValues.value ? [by, path] : undefined,
    2_000,
  );
  const top = data?.rules[0];
  return (
    <section class="panel">
      <div class="row">
        <h2>Top keys, last minute</h2>
        <fieldset class="choice">
          <legend class="hidden">Keys by</legend>
          {topChoices.map(({ name, label }) => (
            <label key={name}>
              <input type="radio" name="by" checked={by === name} onChange={() => replaceParams({ by: name })} />
              {label}
            </label>
          ))}
        </fieldset>
      </div>
      {!seesValues.value && <SignInNeeded what="This list" />}
      <Failure message={error?.message} />
      {data && !top && <Empty title={topChoices.find(({ name }) => name === by)?.empty ?? ''} />}
      {top && (
        <>
          <Estimates oneIn={top.countedOneIn} confidence={top.confidence} />
          <table class="wide">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col" class="number">
                  Hits
                </th>
                <th scope="col" class="number">
                  Too high by at most
                </th>
                <ActionsHeading />
              </tr>
            </thead>
            <tbody>
              {top.keys.map((key) => (
                <tr key={key.descriptor}>
                  <td>
                    <DescriptorOrHash {...key} />
                  </td>
                  <td class="number" data-label="Hits">
                    {exact(key.hits)}
                  </td>
                  <td class="number" data-label="Too high by">
                    {exact(key.atMostTooHighBy)}
                    <Bounds tooHighBy={0} tooLowBy={key.atMostTooLowBy ?? 0} />
                  </td>
                  <td class="actions">
                    {key.entries && !key.cut ? (
                      <>
                        <a
                          href={linkTo('explain', { domain, pairs: pairsParam(key.entries) })}
                          aria-label={`Explain ${key.descriptor.slice(0, 80)}`}
                        >
                          Explain
                        </a>{' '}
                        <a
                          href={linkTo('key', { domain, pairs: pairsParam(key.entries) })}
                          aria-label={`Counters of ${key.descriptor.slice(0, 80)}`}
                        >
                          Counters
                        </a>
                      </>
                    ) : (
                      <span class="dim">{isHashed ? 'hashed' : 'too long'}</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <p class="dim">
            {exact(top.total)} hits in total. An unlisted key had at most {exact(top.unlistedAtMost)}
            {top.keys.length === 20 && ', or fewer than those listed'}.
          </p>
        </>
      )}
    </section>
  );
}
