import type { ProxyQuota } from '../../../src/parts/lab/answers/quotas.ts';
import { get } from '../api.ts';
import { count, exact } from '../format.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Failure, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

/** The shares and usage of a rule's proxies, which report every few seconds. */
export function ProxyQuotas({ domain, rule }: { readonly domain: string; readonly rule: string }) {
  const { data, error } = usePoll(
    () => get('quotas', { domain, rule, count: '20' }),
    seesValues.value ? [rule] : undefined,
    5_000,
  );
  return (
    <section class="panel">
      <h2>Quotas of proxies</h2>
      {!seesValues.value && <SignInNeeded what="This list" />}
      <Failure message={error?.message} />
      {data?.quotas.length === 0 && <Empty title="No proxy of this instance has a bucket of this rule." />}
      {data && data.quotas.length > 0 && (
        <>
          <Table rows={data.quotas} columns={columns} keyOf={(_, at) => at} />
          <p class="dim">
            Rates between the last two reports of a proxy.
            {data.more > 0 && ` ${exact(data.more)} more, with less demand, are not listed.`}
          </p>
        </>
      )}
    </section>
  );
}

const note = <span class="dim"> per s</span>;
const columns: readonly Column<ProxyQuota>[] = [
  {
    name: 'Proxy',
    isHead: true,
    cell: ({ proxy }) => (proxy === undefined ? <span class="dim">no name</span> : <Value text={proxy} />),
  },
  {
    name: 'Bucket',
    cell: ({ entries }) => <Value text={entries.map(({ key, value }) => `${key}=${value}`).join(', ')} />,
  },
  { name: 'Share', note, class: 'number', cell: (quota) => <ShareText quota={quota} /> },
  { name: 'Demand', note, class: 'number', cell: ({ demand }) => (demand === undefined ? '–' : count(demand)) },
  { name: 'Used', note, class: 'number', cell: ({ used }) => (used === undefined ? '–' : count(used)) },
];

function ShareText({ quota: { assigned, share, rate: all } }: { readonly quota: ProxyQuota }) {
  if (assigned === 'allow') return <>all allowed</>;
  if (assigned === 'deny') return <>all denied</>;
  if (share === undefined) return <span class="dim">not sent yet</span>;
  return (
    <>
      {assigned === 'expired' ? <span class="bad-text">expired</span> : count(share)}{' '}
      {all !== undefined && <span class="dim">of {count(all)}</span>}
    </>
  );
}
