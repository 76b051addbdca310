import { groupBy } from '../../../src/base/group.ts';
import type { Status } from '../../../src/parts/status/answers.ts';
import { localTimes, sentence } from '../format.ts';
import { snapshot } from '../live.ts';
import { Value } from './texts.tsx';

const colours = { failing: 'notice bad', degraded: 'notice warn', over: 'notice warn', calm: '' } as const;

/** What the service says of itself, in one sentence, without further problems that the findings list. */
export function Situation() {
  const { level, clauses } = snapshot.value?.situation ?? { level: 'calm', clauses: ['Waiting for the service'] };
  const listed = (snapshot.value?.findings ?? []).map(({ problem }) => problem.toLowerCase());
  const untold = clauses.filter((clause, at) => at === 0 || !listed.includes(clause.toLowerCase()));
  const [first = '', ...others] = untold.map(localTimes);
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

/** What to do about each problem; the one that the sentence begins with is not repeated. */
export function Findings() {
  const { findings = [], situation } = snapshot.value ?? {};
  const [said = ''] = situation?.clauses ?? [];
  return (
    <>
      {[...groupBy(findings, ({ advice }) => advice)].map(([advice, all]) => (
        <div class={`finding ${all[0]?.level === 'failing' ? 'bad' : 'warn'}`} role="alert" key={advice}>
          {all.map(
            ({ problem }) =>
              said.toLowerCase() !== problem.toLowerCase() && (
                <p key={problem}>
                  <Value text={`${sentence(localTimes(problem))}.`} whole />
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
              <Value text={`${sentence(text)}.`} whole />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
