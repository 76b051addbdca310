import type { ListedNotification } from '../../../src/parts/notify/answers.ts';
import { get } from '../api.ts';
import { grouped } from '../format.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo } from '../route.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

const columns: readonly Column<ListedNotification>[] = [
  { name: 'Time', cell: ({ at }) => <Time atMs={Date.parse(at)} /> },
  { name: 'Key', cell: ({ descriptor }) => <Value text={descriptor} /> },
  { name: 'Used', cell: ({ percent, limit }) => `${percent} % of ${grouped(limit)}` },
  { name: 'Rule', cell: ({ rule }) => <a href={linkTo('rule', { path: rule })}>{rule}</a> },
];

/** The counters that have passed a share of their limit. */
export function Notifications() {
  const { data, error } = usePoll(() => get('notifications', {}), seesValues.value ? [] : undefined, 2_000);
  return (
    <>
      <h1>Notices</h1>
      <p>Keys that have used a share of their limit (notify), the newest first.</p>
      {!seesValues.value && <SignInNeeded what="Notices" />}
      <Failure message={error?.message} />
      {data?.notifications.length === 0 && (
        <Empty title="No notice yet.">
          <p>A key appears here when it has used a share that its rule lists under notify.</p>
        </Empty>
      )}
      {data && data.notifications.length > 0 && (
        <Table rows={data.notifications} columns={columns} keyOf={({ id }) => id} />
      )}
    </>
  );
}
