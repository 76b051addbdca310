import { useEffect, useRef, useState } from 'preact/hooks';
import type { ExplainedLimit } from '../../../src/operate/answers/explain.ts';
import { explain, get } from '../api.ts';
import { algorithmText, duration, exact } from '../format.ts';
import { rules } from '../live.ts';
import { DescriptorForm } from '../parts/descriptor-form.tsx';
import { Descriptor, Empty, Failure, Headings, OfDomain, State, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, type Pair, pairsParam, param, readPairs } from '../route.ts';
import { mayOperate, noChangesReason, seesValues } from '../session.ts';
import { ChangeDialog, type ChangeName, changes } from './change-dialog.tsx';
import { RefusedRequest } from './refused-request.tsx';
import { SignInNeeded } from './sign-in.tsx';

export function Key() {
  const entries = readPairs(param('pairs'));
  const domain = param('domain') ?? rules.value?.rules[0]?.domain ?? '';
  const isChosen = entries !== undefined && entries.length > 0;
  return (
    <>
      <h1>Key</h1>
      <p>The counters of one descriptor, and what can be changed about it.</p>
      {!seesValues.value && <SignInNeeded what="Key" />}
      {seesValues.value && (
        <DescriptorForm
          key={`${param('domain')} ${param('pairs')}`}
          initial={{ domain, entries: entries ?? [], hits: 1 }}
          action="Show"
          withHits={false}
          onSubmit={(asked) => {
            location.hash = linkTo('key', { domain: asked.domain, pairs: pairsParam(asked.entries) });
          }}
        />
      )}
      {seesValues.value && isChosen && (
        <Counters key={`${domain} ${param('pairs')}`} domain={domain} entries={entries} />
      )}
      {seesValues.value && !isChosen && <RefusedRequest />}
      {seesValues.value && !isChosen && <Overrides />}
    </>
  );
}

function Counters({ domain, entries }: { readonly domain: string; readonly entries: readonly Pair[] }) {
  const [change, setChange] = useState<ChangeName>();
  const [done, setDone] = useState<string>();
  const said = useRef<HTMLParagraphElement>(null);
  const { data, error, refresh } = usePoll(() => explain(domain, entries, 0), [domain, entries], 1_000);
  const overrides = usePoll(() => get('overrides'), [], 3_000);
  const found = data?.descriptors[0];
  const limits = found?.limits.filter(({ before }) => before !== undefined) ?? [];
  const failure = found?.limits.find((limit) => limit.failure !== undefined)?.failure;
  const name = nameOf(entries);
  const listed = overrides.data?.overrides.find((one) => one.domain === domain && nameOf(one.entries) === name);
  const own = found?.override ?? listed; // listed by hashes if values are hashed
  useEffect(() => {
    if (done !== undefined) said.current?.focus();
  }, [done]);
  return (
    <>
      <Failure message={error?.message ?? failure} />
      {done !== undefined && (
        <p class="notice good" role="status" tabIndex={-1} ref={said}>
          {done}
        </p>
      )}
      <section class="panel">
        <div class="row">
          <h2>
            <Descriptor entries={entries} />
          </h2>
          <a href={linkTo('explain', { domain, pairs: pairsParam(entries) })}>Explain</a>
        </div>
        {own && (
          <p class="notice warn">
            Override by <Value text={own.by} />: <strong>{own.effect}</strong> until{' '}
            {new Date(own.until).toLocaleString()}. <Value text={own.reason} whole />
          </p>
        )}
        {found && limits.length === 0 && failure === undefined && (
          <Empty title="The descriptor has no counters.">
            <p>{found.stopped ? <Value text={found.stopped.why} whole /> : `No counter applies: ${found.outcome}.`}</p>
          </Empty>
        )}
        {limits.length > 0 && <CounterTable limits={limits} />}
        <div class="row actions-row">
          {(Object.keys(changes) as ChangeName[]).map((one) => (
            <button
              key={one}
              type="button"
              disabled={
                !mayOperate.value ||
                (changes[one].needs === 'counters' && limits.length === 0) ||
                (changes[one].needs === 'override' && !own)
              }
              onClick={() => {
                setDone(undefined);
                setChange(one);
              }}
            >
              {changes[one].button}
            </button>
          ))}
        </div>
        {noChangesReason.value !== undefined && <p class="dim">{noChangesReason.value}</p>}
      </section>
      <LastRefusals domain={domain} entries={entries} />
      {change && (
        <ChangeDialog
          name={change}
          domain={domain}
          entries={entries}
          limits={limits}
          override={own}
          onClose={(text) => {
            setChange(undefined);
            setDone(text);
            refresh();
            overrides.refresh();
          }}
        />
      )}
    </>
  );
}

function CounterTable({ limits }: { readonly limits: readonly ExplainedLimit[] }) {
  return (
    <table class="wide">
      <thead>
        <tr>
          <th scope="col">Limit</th>
          <th scope="col">State</th>
          <th scope="col" class="number">
            Used
          </th>
          <th scope="col" class="number">
            Remaining
          </th>
          <th scope="col" class="number">
            Resets in
          </th>
        </tr>
      </thead>
      <tbody>
        {limits.map(({ rule, limit, algorithm, before, counter }) => (
          <tr key={counter}>
            <td>
              {limit.replace(/ by \w+(?=$|,)/, '')} <span class="dim">{algorithmText(algorithm)}</span>
              <div class="dim">
                <a href={linkTo('rule', { path: rule })}>{rule}</a>
              </div>
            </td>
            <td data-label="State">
              <State is={before?.remaining === 0 ? 'bad' : 'good'}>
                {before?.remaining === 0 ? 'Spent' : 'Has room'}
              </State>
            </td>
            <td data-label="Used" class="number">
              {exact(before?.used ?? 0)}
              {before?.onHold ? <div class="dim">{exact(before.onHold)} of it on hold</div> : undefined}
            </td>
            <td data-label="Remaining" class="number">
              {exact(before?.remaining ?? 0)}
            </td>
            <td data-label="Resets in" class="number">
              {before && before.resetsInMs > 0 ? duration(before.resetsInMs) : 'now'}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Equal for the same entries in the same order. */
const nameOf = (entries: readonly Pair[]): string => JSON.stringify(entries.map(({ key, value }) => [key, value]));

function LastRefusals({ domain, entries }: { readonly domain: string; readonly entries: readonly Pair[] }) {
  const { data, error } = usePoll(() => get('refusals', { domain, count: '1000' }), [domain], 2_000);
  const name = nameOf(entries);
  const own = (data?.refusals ?? [])
    .flatMap(({ atMs, descriptors }) => descriptors.map((one) => ({ atMs, one })))
    .filter(({ one }) => nameOf(one.entries) === name && one.code === 'OVER_LIMIT')
    .slice(0, 20);
  return (
    <section class="panel">
      <h2>Last refusals</h2>
      {error?.status === 404 && (
        <Empty title="Refusals are not kept.">
          <p>
            Set <code>EXPLAIN_SAMPLE=1000</code> to keep the last ones with their explanation.
          </p>
        </Empty>
      )}
      {error && error.status !== 404 && <Failure message={error.message} />}
      {data && own.length === 0 && <Empty title="No kept refusal is for this descriptor." />}
      {own.length > 0 && (
        <table>
          <Headings names={['Time', 'Limit', 'Why']} />
          <tbody>
            {own.map(({ atMs, one }, at) => (
              <tr key={`${atMs} ${at}`}>
                <td>
                  <Time atMs={atMs} />
                </td>
                <td>{one.limit}</td>
                <td>
                  <code class="arithmetic">{one.arithmetic}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Overrides of single descriptors. */
function Overrides() {
  const { data, error } = usePoll(() => get('overrides'), [], 3_000);
  return (
    <section class="panel">
      <h2>Overrides</h2>
      <Failure message={error?.message} />
      {data?.overrides.length === 0 && (
        <Empty title="No override is set.">
          <p>Enter a descriptor above to see its counters, and to block it, exempt it or give it a limit of its own.</p>
        </Empty>
      )}
      {data && data.overrides.length > 0 && (
        <table class="wide">
          <Headings names={['Descriptor', 'Effect', 'Until', 'By', 'Reason']} />
          <tbody>
            {data.overrides.map(({ domain, descriptor, entries, effect, until, by, reason }) => (
              <tr key={`${domain} ${descriptor}`}>
                <td>
                  <a href={linkTo('key', { domain, pairs: pairsParam(entries) })}>
                    <Descriptor entries={entries} />
                  </a>
                  <OfDomain domain={domain} />
                </td>
                <td data-label="Effect">{effect}</td>
                <td data-label="Until">{new Date(until).toLocaleString()}</td>
                <td data-label="By">
                  <Value text={by} />
                </td>
                <td data-label="Reason">
                  <Value text={reason} whole />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
