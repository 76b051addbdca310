import { useState } from 'preact/hooks';
import type { ListedRule } from '../../../src/edge/listing/shapes.ts';
import type { Columns, RuleCost } from '../../../src/parts/console/answers.ts';
import { get } from '../api.ts';
import { algorithmText, bytes, count, exact, limitText, millis, time, usedShare } from '../format.ts';
import { ruleHistory, rules, snapshot } from '../live.ts';
import { Choice } from '../parts/choice.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, RulePlace, State, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, param, replaceParams } from '../route.ts';

/** Rows shown at first; a button shows more. */
const PAGE = 100;

const sum = (values: readonly number[] | undefined): number =>
  (values ?? []).reduce((total, value) => total + value, 0);

const orders = {
  file: { text: 'As in the files' },
  refused: { text: 'Refused most' },
  cost: { text: 'Costs the store most' },
} as const;
const orderNames = ['file', 'refused', 'cost'] as const;

const COSTS_POLL_MS = 15_000;

export function Rules() {
  const [shown, setShown] = useState(PAGE);
  const query = param('q') ?? '';
  const listed = rules.value;
  const found = (listed?.rules ?? []).filter((rule) => matches(rule, query.toLowerCase()));
  const refusedBy = (rule: ListedRule): number => sum(ruleHistory.value.get(rule.path)?.refused);
  const hitsOf = (rule: ListedRule): number => refusedBy(rule) + sum(ruleHistory.value.get(rule.path)?.passed);
  const unusualFirst = found.some((rule) => refusedBy(rule) > 0) ? 'refused' : 'file';
  const order = orderNames.find((name) => name === param('order')) ?? unusualFirst;
  const polled = usePoll(() => get('rules/costs'), [], COSTS_POLL_MS);
  const costs = new Map(polled.data?.costs.map((one) => [one.rule, one]));
  const costOf = ({ path }: ListedRule): number => costs.get(path)?.ms ?? 0;
  const compare = {
    file: undefined,
    refused: (one: ListedRule, other: ListedRule) => refusedBy(other) - refusedBy(one) || hitsOf(other) - hitsOf(one),
    cost: (one: ListedRule, other: ListedRule) => costOf(other) - costOf(one),
  }[order];
  const ordered = compare ? found.toSorted(compare) : found;
  const isTree = order === 'file' && query === '';
  const shownRules = ordered
    .slice(0, shown)
    .map((rule, at) => shownRule(rule, isTree ? ordered[at - 1] : undefined, isTree));
  return (
    <>
      <h1>Rules</h1>
      <Problems />
      <LastReload />
      <div class="row">
        <label class="field grow">
          Search
          <input
            type="search"
            value={query}
            placeholder="domain, key, value, file or algorithm"
            onInput={({ currentTarget }) => replaceParams({ q: currentTarget.value })}
          />
        </label>
        <Choice
          of="Order"
          names={orderNames}
          texts={orders}
          chosen={order}
          onChoose={(name) => replaceParams({ order: name })}
        />
      </div>
      <p class="dim" role="status">
        {listed &&
          (query === ''
            ? `${exact(listed.rules.length + listed.more)} rules`
            : `${exact(found.length)} of ${exact(listed.rules.length)} rules`)}
      </p>
      {listed && listed.rules.length === 0 && (
        <Empty title="No rules are loaded.">
          <p>
            Start the service with <code>--rules</code> and a file or a folder; it appears here within a second.
          </p>
        </Empty>
      )}
      {listed && listed.rules.length > 0 && found.length === 0 && (
        <Empty title={`No rule has “${query.slice(0, 60)}”.`} />
      )}
      {found.length > 0 && (
        <Table
          class="rules"
          rows={shownRules}
          columns={order === 'cost' ? [...columnsByCost, costColumn(costs)] : columns}
          keyOf={({ rule }) => `${rule.path} ${rule.line}`}
        />
      )}
      {found.length > shown && (
        <button type="button" onClick={() => setShown(shown + PAGE)}>
          Show {exact(Math.min(PAGE, found.length - shown))} more of {exact(found.length - shown)}
        </button>
      )}
    </>
  );
}

function matches({ path, file = '', limits }: ListedRule, query: string): boolean {
  return (
    query === '' ||
    `${path} ${file} ${limits.map(({ algorithm, name = '' }) => `${algorithm} ${name}`).join(' ')}`
      .toLowerCase()
      .includes(query)
  );
}

function LastReload() {
  const reload = rules.value?.reload;
  if (!reload) return null;
  return (
    <p class="dim">
      Last reload {time(reload.at_ms)}: <Value text={reload.text} whole />
    </p>
  );
}

function Problems() {
  const state = snapshot.value?.rules;
  if (!state || state.pending === null) return null;
  return (
    <div class="notice bad" role="alert">
      The newest rules are invalid; the previous rules, listed below, stay in force.
      <ul>
        {state.problems.map((problem) => (
          <li key={problem}>
            <Value text={problem} whole />
          </li>
        ))}
      </ul>
      {state.moreProblems > 0 && <p>… and {exact(state.moreProblems)} more: /rlconfig lists the first 1,000.</p>}
    </div>
  );
}

/** A row of the table. */
interface ShownRule {
  readonly rule: ListedRule;
  /** Number of levels that the row before has too. Neither they nor the domain are repeated. */
  readonly known: number;
  readonly depth: number;
  readonly series: Columns | undefined;
  readonly passed: number;
  readonly refused: number;
}

function shownRule(rule: ListedRule, before: ListedRule | undefined, isTree: boolean): ShownRule {
  const series = ruleHistory.value.get(rule.path);
  return {
    rule,
    known: before?.domain === rule.domain ? commonLength(rule.levels, before.levels) : 0,
    depth: isTree ? rule.levels.length - 1 : 0,
    series,
    passed: sum(series?.passed),
    refused: sum(series?.refused),
  };
}

const columns: readonly Column<ShownRule>[] = [
  {
    name: 'Rule',
    isHead: true,
    cell({ rule: { path, domain, levels, file, line }, known, depth }) {
      const indent = { paddingInlineStart: `${depth * 16}px` };
      return (
        <>
          <span class="tree" style={indent}>
            {known === 0 && (
              <span class="dim">
                <Value text={domain} />
                {'.'}
              </span>
            )}
            <a href={linkTo('rule', { path })} aria-label={path}>
              <Value text={levels.slice(Math.min(known, depth)).join('.')} />
            </a>
          </span>
          {file !== undefined && (
            <div class="dim tree" style={indent}>
              <RulePlace file={file} line={line} />
            </div>
          )}
        </>
      );
    },
  },
  {
    name: 'Limits',
    cell: ({ rule: { unlimited, limits, schedule } }) => (
      <>
        {unlimited && 'unlimited'}
        {!unlimited && limits.length === 0 && <span class="dim">none</span>}
        {limits.map((limit, at) => (
          <div key={at}>
            {limitText(limit)} <span class="dim">{algorithmText(limit.algorithm)}</span>
            {limit.shadow_mode && (
              <>
                {' '}
                <State is="plain">shadow</State>
              </>
            )}
            {schedule && !schedule.now.includes(at) && <span class="dim">, not now</span>}
            {limit.on_store_failure !== 'error' && <span class="dim">, {limit.on_store_failure} on store failure</span>}
          </div>
        ))}
      </>
    ),
  },
  {
    name: 'Last minute',
    cell: ({ series, passed, refused }) => (
      <Sparkline series={series} label={`${exact(passed)} passed and ${exact(refused)} refused in the last minute`} />
    ),
  },
  { name: 'Passed', class: 'number', cell: ({ passed }) => count(passed) },
  {
    name: 'Refused',
    class: 'number',
    tone: ({ refused }) => (refused > 0 ? 'bad' : undefined),
    cell: ({ refused }) => count(refused),
  },
  {
    name: 'Soft, shadow',
    class: 'number',
    cell({ series }) {
      const [soft, shadow] = [sum(series?.soft), sum(series?.shadow)];
      return soft + shadow === 0 ? '–' : `${count(soft)}, ${count(shadow)}`;
    },
  },
  {
    name: 'Used',
    class: 'number',
    cell: ({ rule: { unlimited, limits }, series }) =>
      unlimited || limits.length === 0 ? '–' : usedShare(series?.share?.at(-1) ?? 0),
  },
];

/** Beside what rules cost the store, for which there would be no room on a tablet. */
const columnsByCost = columns.filter(({ name }) => name !== 'Last minute' && name !== 'Soft, shadow');

const costColumn = (costs: ReadonlyMap<string, RuleCost>): Column<ShownRule> => ({
  name: 'Store, a minute',
  class: 'number',
  cell({ rule }) {
    const cost = costs.get(rule.path);
    if (!cost) return '–';
    return (
      <>
        {millis(cost.ms)}
        <div class="dim">
          {count(cost.operations)} operations, {bytes(cost.bytes)}
        </div>
      </>
    );
  },
});

function commonLength(one: readonly string[], other: readonly string[]): number {
  const end = one.findIndex((level, at) => level !== other[at]);
  return end < 0 ? one.length : end;
}
