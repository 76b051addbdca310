import { groupBy } from '../../../src/base/group.ts';
import type { Status } from '../../../src/parts/status/answers.ts';
import { localTimes } from '../format.ts';
import { snapshot } from '../live.ts';
import { Value } from './texts.tsx';

const colours = { failing: 'notice bad', degraded: 'notice warn', over: 'notice warn', calm: '' } as const;

/** What the service says of itself, in one sentence. */
export function Situation() {
  const { level, clauses } = snapshot.value?.situation ?? { level: 'calm', clauses: ['Waiting for the service'] };
  const [first = '', ...others] = clauses.map(localTimes);
  return (
    <h1 class={`situation ${colours[level]}`}>
      <Value text={`${first}.`} whole />
      {others.map((clause) => (
        <span key={clause}>
          {' '}
          <Value text={`${clause}.`} whole />
        </span>
      ))}
    </h1>
  );
}

/** What to do about each problem, which is left out if the sentence has it and no other. */
export function Findings() {
  const { findings = [], situation } = snapshot.value ?? {};
  const said = situation?.clauses.length === 1 ? situation.text.toLowerCase() : '';
  return (
    <>
      {[...groupBy(findings, ({ advice }) => advice)].map(([advice, all]) => (
        <div class={`finding ${all[0]?.level === 'failing' ? 'bad' : 'warn'}`} role="alert" key={advice}>
          {all.map(
            ({ problem }) =>
              !said.includes(problem.toLowerCase()) && (
                <p key={problem}>
                  <Value text={localTimes(problem)} whole />
                </p>
              ),
          )}
          <p class="dim">
            What to do: <Value text={advice} whole />.
          </p>
        </div>
      ))}
    </>
  );
}

const kinds: Readonly<Record<Status['incidents'][number]['kind'], string>> = {
  outage: 'Outage',
  process: 'Process',
  slow_store: 'Slow store',
  rules: 'Rules',
};

/** What went wrong in the last day, the newest first. */
export function Incidents() {
  const incidents = snapshot.value?.incidents ?? [];
  return (
    <section class="panel">
      <h2>Incidents of the last day</h2>
      {incidents.length === 0 && <p class="dim">None since the process started.</p>}
      {incidents.length > 0 && (
        <ul class="incidents">
          {incidents.map(({ kind, since, until, text }) => (
            <li key={`${kind} ${since}`}>
              <span class="number">{localTimes(since === until ? since : `${since} to ${until ?? 'now'}`)}</span>
              <span class={until === undefined ? 'state bad' : 'state plain'}>{kinds[kind]}</span>
              <Value text={`${text.charAt(0).toUpperCase()}${text.slice(1)}.`} whole />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
