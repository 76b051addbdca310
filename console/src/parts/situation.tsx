import type { ComponentChildren } from 'preact';
import { count, exact, shortTime } from '../format.ts';
import { history, type LiveSnapshot, snapshot } from '../live.ts';
import { ClientLink } from './client-link.tsx';
import { RuleLink } from './texts.tsx';

/** The seconds over which the rates of the sentence are averaged. */
const RECENT_SECONDS = 10;

interface Clause {
  readonly severity: 'bad' | 'warn' | 'plain';
  readonly text: ComponentChildren;
}

/** What happens now, in one sentence. */
export function Situation() {
  const now = snapshot.value;
  const clauses = now ? clausesFor(now) : [];
  const severity = (['bad', 'warn'] as const).find((name) => clauses.some((clause) => clause.severity === name));
  return (
    <h1 class={`situation ${severity ? `notice ${severity}` : ''}`}>
      {!now && 'Waiting for the service.'}
      {clauses.map(({ text }, at) => (
        <span key={at}>
          {at > 0 && '; '}
          {text}
        </span>
      ))}
      {now && '.'}
    </h1>
  );
}

function clausesFor(now: LiveSnapshot): readonly Clause[] {
  const found = [...refusals(now), ...failures(now), ...rejectedRules(now)];
  return found.length > 0 ? found : [{ severity: 'plain', text: calm() }];
}

/** Requests per second with an outcome, as the mean of the last ten seconds. */
function recentRate(field: string): number {
  const last = (history.value[field] ?? []).slice(-RECENT_SECONDS);
  return last.length === 0 ? 0 : last.reduce((sum, value) => sum + value, 0) / last.length;
}

function calm(): string {
  const minute = (history.value.passed ?? []).reduce((sum, value) => sum + value, 0);
  if (minute === 0) return 'No request in the last minute';
  const rate = recentRate('passed');
  return rate === 0 ? 'No request was refused in the last minute' : `All requests pass, ${count(rate)} per second`;
}

function* refusals({ refused, refusedClients, refusingRules, since }: LiveSnapshot): Iterable<Clause> {
  const [rule] = refusingRules;
  if (!rule) return;
  const [client] = refusedClients ?? [];
  const { clients, isAtLeast } = refused;
  const subject =
    clients === 0
      ? 'Requests'
      : `${exact(clients)}${isAtLeast ? ' or more' : ''} ${clients === 1 && !isAtLeast ? 'client' : 'clients'}`;
  yield {
    severity: 'plain',
    text: (
      <>
        {subject} refused since {shortTime(since.refused ?? rule.sinceMs)}
        {clients === 1 || !client ? ', ' : ', mostly '}
        {client && (
          <>
            <ClientLink {...client} /> by{' '}
          </>
        )}
        {!client && clients !== 1 && 'mostly by '}
        {!client && clients === 1 && 'by '}
        <RuleLink path={client?.rule ?? rule.rule} />
      </>
    ),
  };
}

const nameOfStore = (description: string): string =>
  description.startsWith('in Redis') ? 'Redis' : description.startsWith('in memcached') ? 'memcached' : 'the store';

/** The findings about proxies have the reasons. */
function* failures({ store, since }: LiveSnapshot): Iterable<Clause> {
  const name = nameOfStore(store.description);
  const isDown = store.isUp === false;
  const failing = recentRate('undecided');
  const degraded = recentRate('degraded');
  if (failing > 0) {
    const why = isDown ? `: ${name} does not answer` : '';
    const text = `${count(failing)} calls/s fail since ${shortTime(since.undecided ?? 0)}${why}`;
    yield { severity: 'bad', text };
  }
  if (degraded > 0) {
    const without = isDown ? `without ${name}` : 'without their counters';
    const text = `${count(degraded)} requests/s answered ${without} since ${shortTime(since.degraded ?? 0)}, as on_store_failure says`;
    yield { severity: 'warn', text };
  }
  if (isDown && failing === 0 && degraded === 0) {
    const last = store.lastSuccessAtMs === undefined ? '' : ` since ${shortTime(store.lastSuccessAtMs)}`;
    yield { severity: 'bad', text: `${name} does not answer${last}` };
  }
}

function* rejectedRules({ rules }: LiveSnapshot): Iterable<Clause> {
  if (!rules.isNewest) yield { severity: 'warn', text: 'new rules are rejected, the previous ones apply' };
}
