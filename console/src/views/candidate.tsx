import { useEffect, useRef, useState } from 'preact/hooks';
import type { TriedCandidate } from '../../../src/parts/candidate/answers.ts';
import { get } from '../api.ts';
import { exact, percent } from '../format.ts';
import { save } from '../parts/save.ts';
import { Problems } from '../parts/text-problems.tsx';
import { Empty, Fact, Failure, State, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { mayOperate, noChangesReason, seesValues } from '../session.ts';
import { type CandidateChange, CandidateDialog } from './candidate-dialog.tsx';
import { CandidateEditor } from './candidate-editor.tsx';
import { TriedRules } from './candidate-rules.tsx';
import { SignInNeeded } from './sign-in.tsx';

/** Candidate rules on live traffic, and the decisions that they would change. */
export function Candidate() {
  const [change, setChange] = useState<CandidateChange>();
  const [done, setDone] = useState<string>();
  const said = useRef<HTMLParagraphElement>(null);
  const { data, error, refresh } = usePoll(() => get('candidate'), seesValues.value ? [] : undefined, 1_000);
  useEffect(() => {
    if (done !== undefined) said.current?.focus();
  }, [done]);
  const ask = (asked: CandidateChange): void => {
    setDone(undefined);
    setChange(asked);
  };
  return (
    <>
      <h1>Candidate</h1>
      <p>
        Rules that are tried on live traffic, with their own counters. The rules in force still decide every answer.
      </p>
      {!seesValues.value && <SignInNeeded what="Candidate" />}
      <Failure message={error?.message} />
      {done !== undefined && (
        <p class="notice good" role="status" tabIndex={-1} ref={said}>
          {done}
        </p>
      )}
      {data && <Facts candidate={data} onClear={() => ask({ name: 'clear' })} />}
      {data?.state === 'on' && <Figures candidate={data} />}
      {data?.state === 'on' && <TriedRules candidate={data} />}
      {data && <CandidateEditor candidate={data} onLoad={(text, domain) => ask({ name: 'load', text, domain })} />}
      {change && data && (
        <CandidateDialog
          change={change}
          candidate={data}
          onClose={(text) => {
            setChange(undefined);
            setDone(text);
            refresh();
          }}
        />
      )}
    </>
  );
}

const states = {
  off: ['plain', 'Off'],
  on: ['good', 'On'],
  wrong: ['bad', 'Invalid: not tried'],
} as const;

/** Saves the candidate as a patch of the rule file. */
async function savePatch(): Promise<void> {
  const { patch } = await get('candidate/patch');
  save('candidate.patch', 'text/x-patch', patch);
}

function Facts({ candidate, onClear }: { readonly candidate: TriedCandidate; readonly onClear: () => void }) {
  const { state, from, by, reason, loadedAt, since, domains, ruleCount, sample } = candidate;
  const [problem, setProblem] = useState<string>();
  const [is, text] = states[state];
  return (
    <section class="panel" aria-label="State">
      <div class="row">
        <span role="status">
          <State is={is}>{text}</State>
        </span>
        {state !== 'off' && (
          <span class="row">
            {by !== null && candidate.totals.requests > 0 && (
              <button type="button" onClick={() => void savePatch().catch(({ message }: Error) => setProblem(message))}>
                Download a patch
              </button>
            )}
            <button type="button" disabled={!mayOperate.value} onClick={onClear}>
              Clear…
            </button>
          </span>
        )}
      </div>
      {state === 'off' && (
        <Empty title="No candidate is tried.">
          <p>Change the rules below and load them, to see which clients they would refuse before they are in force.</p>
        </Empty>
      )}
      {state !== 'off' && (
        <dl class="facts">
          <Fact name="From">
            <Value text={from ?? 'the admin API'} whole />
            {by !== null && (
              <>
                , by <Value text={by} />
              </>
            )}
          </Fact>
          {reason !== null && (
            <Fact name="Reason">
              <Value text={reason} whole />
            </Fact>
          )}
          {state === 'on' && (
            <>
              <Fact name="Tried">
                {exact(ruleCount)} {ruleCount === 1 ? 'rule' : 'rules'} of <Value text={domains.join(', ')} />
                {sample < 1 && `, on ${sample < 0.01 ? 'less than 1 %' : percent(sample)} of the counters`}
              </Fact>
              <Fact name="Loaded">{loadedAt !== null && <Time atMs={Date.parse(loadedAt)} />}</Fact>
              <Fact name="Figures since">
                {since === null ? 'It is being started.' : <Time atMs={Date.parse(since)} />}
              </Fact>
            </>
          )}
        </dl>
      )}
      <Failure message={problem} />
      <Problems found={candidate} />
      {noChangesReason.value !== undefined && <p class="dim">{noChangesReason.value}</p>}
    </section>
  );
}

function Figures({
  candidate: { totals, dropped, failed, withheld, evicted },
}: {
  readonly candidate: TriedCandidate;
}) {
  const figures = [
    ['Requests', totals.requests, ''],
    ['Refused now', totals.liveRefused, ''],
    ['Refused by the candidate', totals.candidateRefused, ''],
    ['Newly refused', totals.newlyRefused, totals.newlyRefused > 0 ? 'bad' : ''],
    ['Newly passed', totals.newlyPassed, ''],
  ] as const;
  const missing = [
    [dropped.behind, 'were dropped because too many were in flight'],
    [dropped.overload, 'were dropped because the process was late'],
    [failed, 'got no timely reply from the counters of the candidate'],
    [withheld, 'were not compared, because the candidate has not seen all requests of their counters'],
  ] as const;
  return (
    <section class="panel" aria-label="Figures">
      <dl class="figures">
        {figures.map(([label, value, is]) => (
          <Fact key={label} name={label} class={is}>
            <span class="large number">{exact(value)}</span>
          </Fact>
        ))}
      </dl>
      {missing.map(
        ([number, what]) =>
          number > 0 && (
            <p key={what} class="notice warn">
              {exact(number)} {number === 1 ? 'request' : 'requests'} {what}: the figures are too low.
            </p>
          ),
      )}
      {evicted > 0 && (
        <p class="notice warn">
          {exact(evicted)} counters of the candidate were evicted to free memory: it refuses too few requests.
        </p>
      )}
    </section>
  );
}
