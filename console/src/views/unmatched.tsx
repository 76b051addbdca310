import type { UnmatchedDescriptor } from '../../../src/parts/unmatched/answers.ts';
import { get } from '../api.ts';
import { exact } from '../format.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { CopyButton } from '../parts/copy-button.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Bounds, Descriptor, Empty, Estimates, Failure, OfDomain, RulePlace, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo } from '../route.ts';
import { seesValues, session } from '../session.ts';

export function Unmatched() {
  const { data, error } = usePoll(() => get('unmatched', { count: '500' }), [seesValues.value], 1_000);
  const groups = groupsOf(data?.descriptors ?? []);
  return (
    <>
      <h1>Unmatched</h1>
      <p>Descriptors of the last minute that matched no rule. Nothing limits them.</p>
      <Failure message={error?.message} />
      {data && <Estimates oneIn={data.countedOneIn} confidence={data.confidence} />}
      {data && groups.length === 0 && (
        <Empty title={data.requests === 0 ? 'No request arrived in the last minute.' : 'No unmatched descriptor.'}>
          <p>If a limit does not take effect, its descriptors appear here, with the nearest rule.</p>
        </Empty>
      )}
      {groups.length > 0 && <Table rows={groups} columns={columns} keyOf={({ name }) => name} />}
    </>
  );
}

interface Group {
  readonly name: string;
  readonly first: UnmatchedDescriptor;
  /** The most frequent first. */
  readonly list: UnmatchedDescriptor[];
}

/** Numbers, and ids in hexadecimal digits. */
const NUMBERS = /[0-9a-f]{8,}|\d+/g;

/** Groups descriptors that fail to match for the same reason, whatever their other values, and the numbers in this one. */
function groupsOf(all: readonly UnmatchedDescriptor[]): readonly Group[] {
  const groups = new Map<string, Group>();
  for (const one of all) {
    const { domain, entries, reason, level = 0 } = one;
    const value = reason === 'no_such_key' ? undefined : entries[level - 1]?.value.replace(NUMBERS, '#');
    const name = JSON.stringify([domain, reason, level, value, entries.map(({ key }) => key)]);
    const group = groups.get(name) ?? { name, first: one, list: [] };
    groups.set(name, group);
    group.list.push(one);
  }
  return [...groups.values()].sort((one, other) => requestsOf(other) - requestsOf(one));
}

const requestsOf = ({ list }: Pick<Group, 'list'>): number => list.reduce((sum, { count }) => sum + count, 0);

const sumOf = ({ list }: Group, field: 'error' | 'atMostTooLowBy'): number =>
  list.reduce((total, one) => total + (one[field] ?? 0), 0);

const columns: readonly Column<Group>[] = [
  {
    name: 'Descriptor',
    cell({ first: { domain, entries }, list }) {
      const shown = <Descriptor entries={entries} />;
      return (
        <>
          {seesValues.value && !session.value?.hashKeys ? <a href={linkToClient(domain, entries)}>{shown}</a> : shown}
          {list.length > 1 && <div class="dim">and {exact(list.length - 1)} more with the same keys</div>}
          <OfDomain domain={domain} />
        </>
      );
    },
  },
  {
    name: 'Requests',
    class: 'number',
    cell: (group) => (
      <>
        {exact(requestsOf(group))}
        <Bounds tooHighBy={sumOf(group, 'error')} tooLowBy={sumOf(group, 'atMostTooLowBy')} />
      </>
    ),
  },
  {
    name: 'Why it matched no rule',
    label: 'Why',
    cell: ({ first: { why, nearest = [] } }) => (
      <>
        {why === undefined ? 'It would match a rule now: the rules have changed.' : <Value text={why} whole />}
        {nearest.slice(0, 1).map(({ rule, file, line }) => (
          <div key={rule} class="dim">
            nearest: <a href={linkTo('rule', { path: rule })}>{rule}</a>
            {file !== undefined && (
              <>
                {' '}
                <RulePlace file={file} line={line} />
              </>
            )}
          </div>
        ))}
      </>
    ),
  },
  {
    name: '',
    cell: ({ first: { domain, entries } }) => (
      <CopyButton
        text={ruleFor(domain, entries)}
        label="Copy rule"
        of={`YAML that matches ${entries.map(({ key }) => key).join(', ')}`}
      />
    ),
  },
];

/** A rule file that matches the descriptor, with a node per entry, for any value. */
export function ruleFor(domain: string, entries: readonly { readonly key: string }[]): string {
  const lines = [`domain: ${JSON.stringify(domain)}`];
  entries.forEach(({ key }, depth) => {
    const indent = '    '.repeat(depth);
    lines.push(`${indent}descriptors:`, `${indent}  - key: ${JSON.stringify(key)}`);
    if (depth < entries.length - 1) return;
    lines.push(`${indent}    rate_limit:`, `${indent}      unit: minute`, `${indent}      requests_per_unit: 100`);
  });
  return `${lines.join('\n')}\n`;
}
