import { useState } from 'preact/hooks';
import type { SampledRefusal } from '../../../src/operate/answers/explain.ts';
import { get } from '../api.ts';
import { rules } from '../live.ts';
import { Descriptor, Empty, Failure, Headings, OfDomain, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, param, replaceParams } from '../route.ts';

/** Finds a refusal by the id of its request. */
export function RefusedRequest() {
  const id = param('request') ?? '';
  const [typed, setTyped] = useState(id);
  return (
    <section class="panel">
      <h2>Refused request</h2>
      <form
        class="row with-field"
        onSubmit={(event) => {
          event.preventDefault();
          replaceParams({ request: typed.trim() });
        }}
      >
        <label class="field grow">
          Request id
          <input required dir="auto" value={typed} onInput={({ currentTarget }) => setTyped(currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Find
        </button>
      </form>
      {id !== '' && <Found key={id} id={id} />}
    </section>
  );
}

function Found({ id }: { readonly id: string }) {
  const { data, error } = usePoll(() => get('refusals', { request: id }), [id], 3_000);
  if (error?.status === 404)
    return (
      <Empty title="Refusals are not kept.">
        <p>
          Set <code>EXPLAIN_SAMPLE=1000</code>, and send the request id in an entry with <code>not_counted: trace</code>
          .
        </p>
      </Empty>
    );
  if (error) return <Failure message={error.message} />;
  if (!data) return null;
  if (data.refusals.length === 0)
    return (
      <Empty title="No kept refusal has this id.">
        <p>
          The id is the value of the entry with <code>not_counted: trace</code>.{' '}
          {data.dropped > 0 && <>{data.dropped.toLocaleString('en')} refusals were not kept.</>}
        </p>
      </Empty>
    );
  return (
    <table class="wide">
      <Headings names={['Descriptor', 'Rule', 'Answer', 'Why', 'Time']} />
      <tbody>{data.refusals.flatMap((refusal) => refusal.descriptors.map((one, at) => row(refusal, one, at)))}</tbody>
    </table>
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
      {entries.length > 0 ? <Descriptor entries={entries} /> : <span class="dim">the request id</span>}
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
