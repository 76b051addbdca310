import type { LimitJson, ListedRule } from '../../../src/edge/listing/shapes.ts';
import type { Answers } from '../../../src/operate/answers/all.ts';
import { algorithmText, duration, exact, limitText, shortTime, tenths, time, usedShare } from '../format.ts';
import { ruleHistory, rules, snapshot } from '../live.ts';
import { Illustration } from '../parts/illustration.tsx';
import { type SeriesLine, SeriesPlot } from '../parts/series-plot.tsx';
import { Empty, Fact, RulePlace, Value } from '../parts/texts.tsx';
import { linkTo, param } from '../route.ts';
import { session } from '../session.ts';
import { ProxyQuotas } from './proxy-quotas.tsx';
import { Slots } from './slots.tsx';
import { TopClients } from './top-clients.tsx';

const lines: readonly SeriesLine[] = [
  { field: 'passed', label: 'passed', color: '--passed', isFilled: true },
  { field: 'refused', label: 'refused', color: '--bad', isFilled: true },
  { field: 'soft', label: 'soft', color: '--warn', isDashed: true },
  { field: 'shadow', label: 'shadow', color: '--dim', isDashed: true },
];

/** The highest share of the limit that a counter has used. */
const useLines: readonly SeriesLine[] = [
  { field: 'share', label: 'used', color: '--passed', isFilled: true, times: 100, atMost: 200 },
  { field: 'limit', label: 'limit', color: '--ink', isDashed: true, constant: 100 },
];

export function Rule() {
  const path = param('path') ?? '';
  const rule = rules.value?.rules.find((one) => one.path === path);
  const refusing = snapshot.value?.refusingRules.find((one) => one.rule === path);
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
            <Fact name="File">
              {rule.file === undefined ? 'none' : <RulePlace file={rule.file} line={rule.line} />}
            </Fact>
            <Fact name="Used">
              <span class="number">{usedShare(share)}</span>{' '}
              <span class="dim">of the limit, by the fullest counter in the last minute</span>
            </Fact>
            {refusing && (
              <Fact name="Refuses">
                {tenths(refusing.refused / (refusing.refused + refusing.passed))} of its requests in the last minute,
                since {shortTime(refusing.sinceMs)}
              </Fact>
            )}
            {rule.schedule && <ScheduleFacts schedule={rule.schedule} />}
            {rules.value?.reload && <CounterFacts path={path} reload={rules.value.reload} />}
            {rule.unit_cost !== undefined && <Fact name="A hit costs">{rule.unit_cost}</Fact>}
            {rule.count_when !== undefined && <Fact name="Counts only">responses with {rule.count_when}</Fact>}
            {rule.replaces && rule.replaces.length > 0 && <Fact name="Replaces">{rule.replaces.join(', ')}</Fact>}
          </dl>
        </section>
      )}
      {rule?.limits
        .filter(({ counts }) => counts === 'slots')
        .map((limit, at) => (
          <Slots key={at} path={path} limit={limit} />
        ))}
      <section class="panel">
        <SeriesPlot title="Passed and refused" rule={path} lines={lines} unit="per s" hasMarks />
      </section>
      {rule && !rule.unlimited && (
        <section class="panel">
          <SeriesPlot title="Use of the limit by its fullest counter" rule={path} lines={useLines} unit="%" />
        </section>
      )}
      {rule && !rule.unlimited && (
        <section class="panel">
          <h2>Limits</h2>
          <div class="limits">
            {rule.limits.map((limit, at) => (
              <LimitFacts key={at} path={path} at={at} limit={limit} isNow={rule.schedule?.now.includes(at)} />
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
      {rule && session.value?.hasQuotas && <ProxyQuotas domain={rule.domain} rule={path} />}
      <TopClients path={path} />
    </>
  );
}

function ScheduleFacts({ schedule }: { readonly schedule: NonNullable<ListedRule['schedule']> }) {
  const { now, changes_at_ms: changesAtMs } = schedule;
  return (
    <Fact name="Schedule">
      {now.length === 0 ? 'no limit applies now' : 'limits depend on the time'},{' '}
      <span class="dim">
        {changesAtMs === undefined ? 'with no further changes' : `next change ${time(changesAtMs)}`}
      </span>
    </Fact>
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
    <Fact name="Changed">
      {time(reload.at_ms)}: <span class="dim">{isKept ? 'counters were kept' : 'counters were restarted'}</span>
    </Fact>
  );
}

interface Share {
  readonly by?: string;
  readonly path: readonly { readonly reserve: number; readonly weight: number; readonly ceiling: number }[];
}

/** `reserve 2, weight 3, ceiling 5`, and the key by whose values it is shared. */
function shareText(share: Share | undefined): string | undefined {
  if (!share) return undefined;
  const { reserve = 0, weight, ceiling = 0 } = share.path.at(-1) ?? {};
  const own = [
    reserve > 0 && `reserve ${exact(reserve)}`,
    weight !== undefined && `weight ${exact(weight)}`,
    ceiling > 0 && `ceiling ${exact(ceiling)}`,
    share.by !== undefined && `shared by ${share.by}`,
  ];
  return own.filter(Boolean).join(', ');
}

const policyTexts: readonly (readonly [string, (limit: LimitJson) => string | undefined])[] = [
  ['Burst', ({ burst }) => (burst === undefined ? undefined : exact(burst))],
  ['Share', ({ share }) => shareText(share as Share | undefined)], // as rules are listed
  ['Soft', ({ soft }) => (soft > 0 ? `${exact(soft)} beyond the limit` : undefined)],
  ['Store failure', ({ on_store_failure }) => on_store_failure],
  ['Consistency', ({ consistency }) => consistency],
  ['Shadow mode', ({ shadow_mode }) => (shadow_mode ? 'on: refuses nothing' : undefined)],
  ['Quota mode', ({ quota_mode }) => (quota_mode ? 'on' : undefined)],
  ['Active', ({ active }) => active],
  ['On change', ({ on_change }) => on_change],
];

interface LimitFactsProps {
  readonly path: string;
  /** The index of the limit in its rule. */
  readonly at: number;
  readonly limit: LimitJson;
  /** Undefined: the limit always applies. */
  readonly isNow: boolean | undefined;
}

function LimitFacts({ path, at, limit, isNow }: LimitFactsProps) {
  return (
    <article class="stack">
      <p>
        <strong>{limitText(limit)}</strong> <span class="dim">{algorithmText(limit.algorithm)}</span>{' '}
        {isNow !== undefined && <span class={isNow ? undefined : 'dim'}>{isNow ? 'applies now' : 'not now'}</span>}
      </p>
      <dl class="facts">
        {limit.name !== undefined && <Fact name="Name">{limit.name}</Fact>}
        {limit.counts !== 'allocated' && (
          <Fact name={limit.counts === 'slots' ? 'ttl of a slot' : 'Window'}>{duration(limit.window_ms)}</Fact>
        )}
        {policyTexts.map(([name, of]) => {
          const text = of(limit);
          return (
            text !== undefined && (
              <Fact key={name} name={name}>
                {text}
              </Fact>
            )
          );
        })}
      </dl>
      {limit.counts === undefined && <Illustration path={path} at={at} limit={limit} />}
    </article>
  );
}
