import { useEffect, useRef, useState } from 'preact/hooks';
import { descriptorText } from '../../../src/edge/listing/descriptor-text.ts';
import type { ExplainedDescriptor, Explanation } from '../../../src/parts/lab/answers/explain.ts';
import { explain, get } from '../api.ts';
import { duration, exact, grouped, sentence, shortTime, tenths, time } from '../format.ts';
import { rules, snapshot } from '../live.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { DescriptorForm } from '../parts/descriptor-form.tsx';
import { HitsField } from '../parts/hits-field.tsx';
import { SeriesPlot } from '../parts/series-plot.tsx';
import { Descriptor, Empty, Failure, State, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { type Pair, pairsParam, param, readPairs, replaceParams } from '../route.ts';
import { mayOperate, noChangesReason, seesValues, session } from '../session.ts';
import { ChangeDialog, type ChangeName, changes } from './change-dialog.tsx';
import { Clients } from './clients.tsx';
import { LastRefusals } from './last-refusals.tsx';
import { LimitExplained } from './limit-explained.tsx';
import { MatchedPath } from './matched-path.tsx';
import { Overrides } from './overrides.tsx';
import { SignInNeeded } from './sign-in.tsx';

/** The page of one client, or the overrides of all of them. */
export function Client() {
  const entries = readPairs(param('pairs'));
  const domain = param('domain') ?? rules.value?.rules[0]?.domain ?? '';
  if (seesValues.value && entries !== undefined && entries.length > 0)
    return <ClientPage key={`${domain} ${param('pairs')}`} domain={domain} entries={entries} />;
  return (
    <>
      <h1>Clients</h1>
      {!seesValues.value && <SignInNeeded what="This page" />}
      {seesValues.value && (
        <>
          <Clients />
          <details class="panel">
            <summary>Another client, by its descriptor</summary>
            <DescriptorForm
              key={param('domain')} // not that of the rules, which may arrive while someone types
              initial={{ domain, entries: [] }}
              action="Show"
              onSubmit={(asked) => {
                location.hash = linkToClient(asked.domain, asked.entries);
              }}
            />
          </details>
          <Overrides />
        </>
      )}
    </>
  );
}

interface ClientProps {
  readonly domain: string;
  readonly entries: readonly Pair[];
}

function ClientPage({ domain, entries }: ClientProps) {
  const hits = Number(param('hits') ?? 1) || 1;
  const [done, setDone] = useState<string>();
  const said = useRef<HTMLParagraphElement>(null);
  const { data, error, refresh } = usePoll(() => explain(domain, entries, hits), [domain, entries, hits], 1_000);
  const overrides = usePoll(() => get('overrides'), [], 3_000);
  const found = data?.descriptors[0];
  const name = descriptorText(entries);
  const listed = overrides.data?.overrides.find((one) => one.domain === domain && one.descriptor === name);
  const own = found?.override ?? listed; // listed by hashes if values are hashed
  useEffect(() => {
    if (done !== undefined) said.current?.focus();
  }, [done]);
  return (
    <>
      <div class="row">
        <h1>
          <Descriptor entries={entries} />
        </h1>
        <p class="dim">
          domain <Value text={domain} />
        </p>
      </div>
      {done !== undefined && (
        <p class="notice good" role="status" tabIndex={-1} ref={said}>
          {done}
        </p>
      )}
      <Failure message={error?.message} />
      {data && found && (
        <>
          <section class="panel" aria-label="Answer">
            {own && (
              <p class={`notice ${own.effect === 'block' ? 'bad' : 'warn'}`}>
                <strong>{effectText(own.effect)}</strong> by <Value text={own.by} /> until {time(Date.parse(own.until))}
                : <Value text={own.reason} whole />
              </p>
            )}
            <div class="row with-field">
              <div>
                <Verdict answer={data} />
                <RefusedSince entries={entries} />
              </div>
              <HitsField class="field hits" value={hits} onChange={(next) => replaceParams({ hits: String(next) })} />
            </div>
            <Limits found={found} hits={hits} />
            <Actions
              domain={domain}
              entries={entries}
              found={found}
              override={own}
              onChanged={(text) => {
                setDone(text);
                refresh();
                overrides.refresh();
              }}
            />
          </section>
          {found.rule !== undefined && (
            <section class="panel">
              <SeriesPlot
                title="Refused requests"
                rule={found.rule}
                descriptor={name}
                lines={[{ field: 'refused', label: 'refused', color: '--bad', isFilled: true }]}
                unit="per s, mean of a minute"
                hasMarks
              />
            </section>
          )}
          {session.value?.keepsRefusals && <LastRefusals domain={domain} entries={entries} rule={found.rule} />}
          <MatchedPath descriptor={found} domain={domain} source={data.rules?.source} />
        </>
      )}
      {session.value && !session.value.keepsRefusals && (
        <p class="dim">
          Single refusals are not kept. Set <code>EXPLAIN_SAMPLE=1000</code> to keep the last ones.
        </p>
      )}
    </>
  );
}

const effectText = (effect: string): string =>
  effect === 'block' ? 'Blocked' : effect === 'exempt' ? 'Let in' : `Limited to ${grouped(effect)}`;

/** The answer that the next request would get. */
function Verdict({ answer: { status, decision, error, warning } }: { readonly answer: Explanation }) {
  const isRefused = status === 429;
  return (
    <p class="verdict" aria-live="polite">
      <State is={status === 400 ? 'warn' : isRefused ? 'bad' : 'good'}>
        {status === 400 ? 'No answer' : isRefused ? 'Refused' : 'Passes'}
      </State>{' '}
      {error !== undefined ? <Value text={error} whole /> : decision && `${sentence(decision.why)}.`}
      {isRefused && decision && (
        <>
          {' '}
          {decision.passesInMs === null
            ? 'It never passes by waiting.'
            : `It passes in ${duration(decision.passesInMs)}.`}
        </>
      )}
      {decision && decision.delayMs > 0 && ` It is held for ${duration(decision.delayMs)}.`}
      {warning !== undefined && <Value text={` ${sentence(warning)}.`} whole />}
    </p>
  );
}

/** Since when each rule refuses the client. */
function RefusedSince({ entries }: Pick<ClientProps, 'entries'>) {
  const name = pairsParam(entries);
  const own = snapshot.value?.refusedClients?.filter((one) => one.entries && pairsParam(one.entries) === name) ?? [];
  return (
    <>
      {own.map(({ rule, sinceMs, refusedShare, requests }) => (
        <p key={rule} class="dim">
          Refused since {shortTime(sinceMs)}: {exact(requests)} requests in the last minute, {tenths(refusedShare)} of
          its hits.
        </p>
      ))}
    </>
  );
}

/** The limits that apply, those that refuse longest first. */
function Limits({ found, hits }: { readonly found: ExplainedDescriptor; readonly hits: number }) {
  const limits = found.limits.toSorted((one, other) => waitOf(other) - waitOf(one));
  const [first, ...others] = limits;
  if (!first)
    return (
      <Empty title="No limit applies.">
        {found.stopped && (
          <p>
            <Value text={`${sentence(found.stopped.why)}.`} whole />
          </p>
        )}
      </Empty>
    );
  return (
    <>
      <LimitExplained limit={first} hits={hits} isOnly={others.length === 0} />
      {others.length > 0 && (
        <details open={others.length === 1}>
          <summary>{others.length === 1 ? 'One more limit' : `${exact(others.length)} more limits`}</summary>
          {others.map((limit, at) => (
            <LimitExplained key={at} limit={limit} hits={hits} isOnly={false} />
          ))}
        </details>
      )}
    </>
  );
}

/** How long a limit refuses; one in shadow mode comes after those that refuse. */
function waitOf({ code, shadow, retryAfterMs }: ExplainedDescriptor['limits'][number]): number {
  if (code !== 'OVER_LIMIT') return 0;
  return shadow ? 1 : (retryAfterMs ?? Number.POSITIVE_INFINITY);
}

interface ActionsProps extends ClientProps {
  readonly found: ExplainedDescriptor;
  readonly override: ExplainedDescriptor['override'];
  readonly onChanged: (done: string | undefined) => void;
}

/** The primary action, followed by the other changes. */
function Actions({ domain, entries, found, override, onChanged }: ActionsProps) {
  const asked = Object.keys(changes).find((one) => one === param('change')) as ChangeName | undefined; // a key of it
  const [change, setChange] = useState<ChangeName | undefined>(mayOperate.value ? asked : undefined);
  const limits = found.limits.filter(({ before }) => before !== undefined);
  const cannot = (one: ChangeName): boolean =>
    !mayOperate.value ||
    (changes[one].needs === 'counters' && limits.length === 0) ||
    (changes[one].needs === 'override' && !override);
  return (
    <>
      <div class="row actions-row">
        {(Object.keys(changes) as ChangeName[]).map((one) => (
          <button
            key={one}
            type="button"
            class={one === PRIMARY ? 'primary' : undefined}
            disabled={cannot(one)}
            onClick={() => {
              onChanged(undefined);
              setChange(one);
            }}
          >
            {changes[one].button}
          </button>
        ))}
      </div>
      {noChangesReason.value !== undefined && <p class="dim">{noChangesReason.value}</p>}
      {change && (
        <ChangeDialog
          name={change}
          domain={domain}
          entries={entries}
          limits={limits}
          override={override}
          onClose={(text) => {
            setChange(undefined);
            replaceParams({ change: undefined });
            onChanged(text);
          }}
        />
      )}
    </>
  );
}

const PRIMARY: ChangeName = 'exempt';
