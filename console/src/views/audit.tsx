import type { AuditLine } from '../../../src/operate/answers/service.ts';
import { describeChange } from '../../../src/parts/audit/audit-text.ts';
import { get } from '../api.ts';
import { grouped, localTimes } from '../format.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, State, storeFailure, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

const columns: readonly Column<AuditLine>[] = [
  { name: 'Time', cell: ({ at }) => <Time atMs={Date.parse(at)} /> },
  { name: 'By', cell: ({ who }) => <Value text={who} /> },
  {
    name: 'Change',
    cell: ({ change, failed }) => (
      <>
        {change}
        {failed !== undefined && (
          <div>
            <State is="bad">failed</State> <Value text={failed} />
          </div>
        )}
      </>
    ),
  },
  { name: 'Key', cell: (line) => <What line={line} /> },
  {
    name: 'Before, after',
    cell: (line) => <Value text={localTimes(grouped(describeChange(line).states))} />,
  },
  { name: 'Reason', cell: ({ reason }) => <Value text={reason} whole /> },
];

const MEANING = 'The list is kept there; AUDIT_LOG has every change. No change can be made until it answers.';

export function Audit() {
  const { data, error } = usePoll(() => get('audit', { count: '200' }), seesValues.value ? [] : undefined, 2_000);
  return (
    <>
      <h1>Audit</h1>
      <p>Changes that operators made, the newest first. The whole log is written to AUDIT_LOG.</p>
      {!seesValues.value && <SignInNeeded what="Audit" />}
      <Failure message={storeFailure(error, MEANING)} />
      {data?.changes.length === 0 && (
        <Empty title="No change yet.">
          <p>Resets, grants, overrides and candidates appear here with the name of the token and the reason.</p>
        </Empty>
      )}
      {data && data.changes.length > 0 && (
        <Table rows={data.changes} columns={columns} keyOf={(line, at) => `${line.at} ${at}`} />
      )}
    </>
  );
}

function What({ line }: { readonly line: AuditLine }) {
  const { domain, descriptor, granted } = describeChange(line);
  if (Object.keys(line.what).length === 0) return <span class="dim">none</span>; // the candidate is that of the service
  const { rule, domains = [] } = line.what as { readonly rule?: string; readonly domains?: readonly string[] }; // written by changes of counters and candidates
  return (
    <>
      {descriptor !== undefined && <Value text={descriptor} />}
      <div class="dim">
        {rule ?? domain ?? domains.join(', ')}
        {granted !== undefined && `, ${grouped(granted)}`}
      </div>
    </>
  );
}
