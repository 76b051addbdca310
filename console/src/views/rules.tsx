import { useState } from 'preact/hooks';
import type { ListedRule } from '../../../src/engine/rules/match/shapes.ts';
import type { RuleCost } from '../../../src/operate/answers/rules.ts';
import { get } from '../api.ts';
import { algorithmText, bytes, count, exact, limitText, millis, time, usedShare } from '../format.ts';
import { ruleHistory, rules, snapshot } from '../live.ts';
import { Sparkline } from '../parts/sparkline.tsx';
import { Empty, State, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, param, replaceParams } from '../route.ts';

/** Rows shown at first; a button shows more. */
const PAGE = 100;

const sum = (values: readonly number[] | undefined): number =>
  (values ?? []).reduce((total, value) => total + value, 0);

const orders = [
  ['file', 'As in the files'],
  ['refused', 'Refused most'],
  ['cost', 'Costs the store most'],
] as const;

const COSTS_POLL_MS = 15_000;

export function Rules() {
  const [shown, setShown] = useState(PAGE);
  const query = param('q') ?? '';
  const order = orders.find(([name]) => name === param('order'))?.[0] ?? 'file';
  const listed = rules.value;
  const found = (listed?.rules ?? []).filter((rule) => matches(rule, query.toLowerCase()));
  const refusedBy = (rule: ListedRule): number => sum(ruleHistory.value.get(rule.path)?.refused);
  const hitsOf = (rule: ListedRule): number => refusedBy(rule) + sum(ruleHistory.value.get(rule.path)?.passed);
  const polled = usePoll(() => get('rules/costs'), [], COSTS_POLL_MS);
  const costs = new Map(polled.data?.costs.map((one) => [one.rule, one]));
  const costOf = ({ path }: ListedRule): number => costs.get(path)?.ms ?? 0;
  const compare = {
    file: undefined,
    refused: (one: ListedRule, other: ListedRule) => refusedBy(other) - refusedBy(one) || hitsOf(other) - hitsOf(one),
    cost: (one: ListedRule, other: ListedRule) => costOf(other) - costOf(one),
  }[order];
  const ordered = compare ? found.toSorted(compare) : found;
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
        <fieldset class="choice">
          <legend class="hidden">Order</legend>
          {orders.map(([name, text]) => (
            <label key={name}>
              <input
                type="radio"
                name="order"
                checked={order === name}
                onChange={() => replaceParams({ order: name === 'file' ? undefined : name })}
              />
              {text}
            </label>
          ))}
        </fieldset>
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
        <table class="wide rules">
          <thead>
            <tr>
              <th scope="col">Rule</th>
              <th scope="col">Limits</th>
              <th scope="col">Last minute</th>
              <th scope="col" class="number">
                Passed
              </th>
              <th scope="col" class="number">
                Refused
              </th>
              <th scope="col" class="number">
                Soft, shadow
              </th>
              <th scope="col" class="number">
                Used
              </th>
              {costs.size > 0 && (
                <th scope="col" class="number">
                  Store, a minute
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {ordered.slice(0, shown).map((rule, at) => (
              <RuleRow
                key={`${rule.path} ${rule.line}`}
                rule={rule}
                isTree={order === 'file' && query === ''}
                before={ordered[at - 1]}
                cost={costs.get(rule.path)}
                hasCosts={costs.size > 0}
              />
            ))}
          </tbody>
        </table>
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
  if (!state || state.isNewest) return null;
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

function RuleRow({
  rule,
  isTree,
  before,
  cost,
  hasCosts,
}: {
  readonly rule: ListedRule;
  readonly isTree: boolean;
  readonly before: ListedRule | undefined;
  readonly cost: RuleCost | undefined;
  readonly hasCosts: boolean;
}) {
  const { path, domain, levels, file, line, limits, unlimited } = rule;
  const series = ruleHistory.value.get(path);
  const known = isTree && before?.domain === domain ? commonLength(levels, before.levels) : 0;
  const depth = isTree ? levels.length - 1 : 0;
  const passed = sum(series?.passed);
  const refused = sum(series?.refused);
  const soft = sum(series?.soft);
  const shadow = sum(series?.shadow);
  const share = series?.share?.at(-1) ?? 0;
  return (
    <tr>
      <th scope="row">
        <span class="tree" style={{ paddingInlineStart: `${depth * 16}px` }}>
          {(!isTree || known === 0) && (
            <span class="dim">
              <Value text={domain} />
              {'.'}
            </span>
          )}
          <a href={linkTo('rule', { path })} aria-label={path}>
            <Value text={isTree ? levels.slice(Math.min(known, depth)).join('.') : levels.join('.')} />
          </a>
        </span>
        {file !== undefined && (
          <div class="dim tree" style={{ paddingInlineStart: `${depth * 16}px` }}>
            {file}
            {line !== undefined && `:${line}`}
          </div>
        )}
      </th>
      <td data-label="Limits">
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
            {limit.on_store_failure !== 'error' && <span class="dim">, {limit.on_store_failure} on store failure</span>}
          </div>
        ))}
      </td>
      <td data-label="Last minute">
        <Sparkline series={series} label={`${exact(passed)} passed and ${exact(refused)} refused in the last minute`} />
      </td>
      <td data-label="Passed" class="number">
        {count(passed)}
      </td>
      <td data-label="Refused" class={refused > 0 ? 'number bad' : 'number'}>
        {count(refused)}
      </td>
      <td data-label="Soft, shadow" class="number">
        {soft + shadow === 0 ? '–' : `${count(soft)}, ${count(shadow)}`}
      </td>
      <td data-label="Used" class="number">
        {unlimited || limits.length === 0 ? '–' : usedShare(share)}
      </td>
      {hasCosts && (
        <td data-label="Store, a minute" class="number">
          {cost ? millis(cost.ms) : '–'}
          {cost && (
            <div class="dim">
              {count(cost.operations)} operations, {bytes(cost.bytes)}
            </div>
          )}
        </td>
      )}
    </tr>
  );
}

function commonLength(one: readonly string[], other: readonly string[]): number {
  const end = one.findIndex((level, at) => level !== other[at]);
  return end < 0 ? one.length : end;
}
