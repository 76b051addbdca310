import type { AuditLine } from '../../../src/operate/answers/service.ts';
import { get } from '../api.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, State, Time, Value } from '../parts/texts.tsx';
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
  { name: 'Key', cell: ({ what }) => <What what={what} /> },
  {
    name: 'Before, after',
    cell: ({ before, after }) => <Value text={`${stateText(before)} → ${stateText(after)}`} />,
  },
  { name: 'Reason', cell: ({ reason }) => <Value text={reason} whole /> },
];

export function Audit() {
  const { data, error } = usePoll(() => get('audit', { count: '200' }), seesValues.value ? [] : undefined, 2_000);
  return (
    <>
      <h1>Audit</h1>
      <p>Changes that operators made, the newest first. The whole log is written to AUDIT_LOG.</p>
      {!seesValues.value && <SignInNeeded what="Audit" />}
      <Failure message={error?.message} />
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

function What({ what }: { readonly what: object }) {
  const { domain, descriptor, rule, hits } = what as Partial<Record<string, string | number>>; // what changes write
  if (Object.keys(what).length === 0) return <span class="dim">none</span>; // the candidate is that of the service
  return (
    <>
      <Value text={String(descriptor ?? '')} />
      <div class="dim">
        {rule ?? domain}
        {hits !== undefined && `, ${hits} hits`}
      </div>
    </>
  );
}

/** A counter's use, the effect of an override, the state or the length of a candidate. */
function stateText(state: unknown): string {
  if (Array.isArray(state)) return state.map(stateText).join(', ');
  if (state === null || state === undefined) return 'none';
  const { used, effect, state: candidate, characters } = state as Written; // what changes write
  if (characters !== undefined) return `${characters} characters`;
  return effect ?? candidate ?? (used === undefined ? JSON.stringify(state) : `${used} used`);
}

interface Written {
  readonly used?: number;
  readonly effect?: string;
  readonly state?: string;
  readonly characters?: number;
}
