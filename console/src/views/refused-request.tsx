import type { SampledRefusal } from '../../../src/operate/answers/explain.ts';
import { get } from '../api.ts';
import { exact } from '../format.ts';
import { rules } from '../live.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { Descriptor, Empty, Failure, Headings, OfDomain, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo } from '../route.ts';

/** The kept refusals of the request with this id. */
export function RefusedRequest({ id }: { readonly id: string }) {
  const { data, error } = usePoll(() => get('refusals', { request: id }), [id], 3_000);
  return (
    <section class="panel">
      <h2>Refused request</h2>
      <Failure message={error?.message} />
      {data?.refusals.length === 0 && (
        <Empty title="No kept refusal has this id.">
          <p>
            The id is the value of the entry with <code>not_counted: trace</code>.{' '}
            {data.dropped > 0 && <>{exact(data.dropped)} refusals were not kept.</>}
          </p>
        </Empty>
      )}
      {data && data.refusals.length > 0 && (
        <table class="wide">
          <Headings names={['Client', 'Rule', 'Answer', 'Why', 'Time']} />
          <tbody>
            {data.refusals.flatMap((refusal) => refusal.descriptors.map((one, at) => row(refusal, one, at)))}
          </tbody>
        </table>
      )}
    </section>
  );
}

type Refused = SampledRefusal['descriptors'][number];

const row = (
  { atMs, domain }: SampledRefusal,
  { entries, rule, limit, code, outcome, arithmetic }: Refused,
  at: number,
) => (
  <tr key={`${atMs} ${at}`}>
    <td>
      {entries.length > 0 ? (
        <a href={linkToClient(domain, entries)}>
          <Descriptor entries={entries} />
        </a>
      ) : (
        <span class="dim">the request id</span>
      )}
      <OfDomain domain={domain} />
    </td>
    <td data-label="Rule">
      {rule !== undefined && <RuleLink path={rule} />}
      {limit !== undefined && <div class="dim">{limit}</div>}
    </td>
    <td data-label="Answer">{code ?? outcome.replaceAll('_', ' ')}</td>
    <td data-label="Why">{arithmetic !== undefined && <code class="arithmetic">{arithmetic}</code>}</td>
    <td data-label="Time">
      <Time atMs={atMs} />
    </td>
  </tr>
);

/** The rule's path, as a link if the rule still exists. */
function RuleLink({ path }: { readonly path: string }) {
  const isKnown = rules.value?.rules.some((one) => one.path === path) ?? false;
  return isKnown ? <a href={linkTo('rule', { path })}>{path}</a> : <Value text={path} />;
}
