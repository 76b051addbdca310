import type { ComponentChildren } from 'preact';
import { bytes, duration, exact, localTimes, millis, sentence } from '../format.ts';
import { snapshot } from '../live.ts';
import { State, type StateName, Value } from './texts.tsx';

/** The lateness to warn of: callers that wait for 100 ms get answers from memory. */
const LATE_MS = 100;

/** The state of callers, deciders, the store and the work beside the answers, each in a sentence. */
export function States() {
  const now = snapshot.value;
  if (!now) return null;
  return (
    <section class="states" aria-label="States">
      <Callers />
      <Deciders />
      <Store />
      <Background />
    </section>
  );
}

interface OneStateProps {
  readonly name: string;
  readonly is: StateName;
  /** The state in a word or two. */
  readonly word: string;
  readonly children: ComponentChildren;
}

const OneState = ({ name, is, word, children }: OneStateProps) => (
  <div class="panel">
    <h2>{name}</h2>
    <div>
      <State is={is}>{word}</State>
    </div>
    <div class="dim">{children}</div>
  </div>
);

function Callers() {
  const now = snapshot.value;
  if (!now) return null;
  const { offered, refused, undecided, degraded } = now.lastMinute;
  const [is, word] =
    undecided > 0
      ? (['bad', `${exact(undecided)} undecided`] as const)
      : degraded > 0
        ? (['warn', `${exact(degraded)} without counters`] as const)
        : offered > 0
          ? (['good', 'All decided'] as const)
          : (['plain', 'No request'] as const);
  return (
    <OneState name="Callers" is={is} word={word}>
      {exact(offered)} requests in the last minute, {exact(refused)} refused; {exact(now.figures.connections)}{' '}
      connections
    </OneState>
  );
}

function Deciders() {
  const now = snapshot.value;
  if (!now) return null;
  const { workers, processes, figures, atMs, startedAtMs } = now;
  const isMissing = workers.expected > 1 && processes.length < workers.expected;
  const isLate = figures.latenessMs >= LATE_MS;
  const word = isMissing ? `${processes.length} of ${workers.expected} answer` : isLate ? 'Late' : 'On time';
  return (
    <OneState name="Deciders" is={isMissing || isLate ? 'warn' : 'good'} word={word}>
      {workers.expected === 1 ? 'One process' : `${workers.expected} processes`}
      {workers.restarts > 0 && `, ${exact(workers.restarts)} restarted`}
      {figures.latenessMs > 0 && `; late by ${millis(figures.latenessMs)} at most`}; started{' '}
      {duration(atMs - startedAtMs)} ago, {bytes(figures.rssBytes)}
    </OneState>
  );
}

function Store() {
  const { store, incidents } = snapshot.value ?? {};
  if (!store || !incidents) return null;
  const { isUp, reason, openCircuits, lastMinute, lastDay, description } = store;
  const isSlow = incidents.some(({ kind, until }) => kind === 'slow_store' && until === undefined);
  const [is, word] =
    isUp === false
      ? (['bad', 'Down'] as const)
      : openCircuits.length > 0
        ? (['bad', 'Not called'] as const)
        : isSlow
          ? (['warn', 'Slow'] as const)
          : (['good', 'Up'] as const);
  const latencies = [
    ...(lastMinute ? [`p50 ${millis(lastMinute.p50Ms)}, p99 ${millis(lastMinute.p99Ms)} now`] : []),
    ...(lastDay ? [`p50 ${millis(lastDay.p50Ms)}, p99 ${millis(lastDay.p99Ms)} in a day`] : []),
  ];
  return (
    <OneState name="Store" is={is} word={word}>
      <Value text={reason ?? (openCircuits.join(', ') || description)} whole />
      {latencies.map((line) => (
        <div key={line}>{line}</div>
      ))}
    </OneState>
  );
}

function Background() {
  const { rules, background } = snapshot.value ?? {};
  if (!rules || !background) return null;
  const failing = background.filter((work) => work.failing);
  const isNewest = rules.pending === null;
  const word = failing.length > 0 ? `${exact(failing.length)} failing` : isNewest ? 'Working' : 'Rules rejected';
  return (
    <OneState name="Rules and background work" is={failing.length > 0 || !isNewest ? 'warn' : 'good'} word={word}>
      {failing.map(({ does, failing: why }) => (
        <div key={does}>
          {sentence(does)}: <Value text={why?.reason ?? ''} whole />
        </div>
      ))}
      {exact(rules.count)} rules in force
      {rules.loadedAt !== undefined && `, loaded ${localTimes(rules.loadedAt)}`}
    </OneState>
  );
}
