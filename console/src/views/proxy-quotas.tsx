import type { ProxyQuota } from '../../../src/edge/rlqs/shapes.ts';
import { get } from '../api.ts';
import { count, exact } from '../format.ts';
import { Empty, Failure, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

/** The shares and usage of a rule's proxies, which report every few seconds. */
export function ProxyQuotas({ rule }: { readonly rule: string }) {
  const { data, error } = usePoll(
    () => get('quotas', { rule, count: '20' }),
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
          <table class="wide">
            <thead>
              <tr>
                <th scope="col">Proxy</th>
                <th scope="col">Bucket</th>
                {['Share', 'Demand', 'Used'].map((name) => (
                  <th key={name} scope="col" class="number">
                    {name} <span class="dim">per s</span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {data.quotas.map((quota, at) => (
                <QuotaRow key={at} quota={quota} />
              ))}
            </tbody>
          </table>
          <p class="dim">
            Rates between the last two reports of a proxy.
            {data.more > 0 && ` ${exact(data.more)} more, with less demand, are not listed.`}
          </p>
        </>
      )}
    </section>
  );
}

function QuotaRow({ quota }: { readonly quota: ProxyQuota }) {
  const { proxy, entries, demand, used } = quota;
  return (
    <tr>
      <th scope="row">{proxy === undefined ? <span class="dim">no name</span> : <Value text={proxy} />}</th>
      <td data-label="Bucket">
        <Value text={entries.map(({ key, value }) => `${key}=${value}`).join(', ')} />
      </td>
      <td class="number" data-label="Share">
        <ShareText quota={quota} />
      </td>
      <td class="number" data-label="Demand">
        {demand === undefined ? '–' : count(demand)}
      </td>
      <td class="number" data-label="Used">
        {used === undefined ? '–' : count(used)}
      </td>
    </tr>
  );
}

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
