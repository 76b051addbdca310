import { count, counted } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import { type Outcomes, offeredOf } from '../../operate/status/service-series.ts';
import type { Status, StatusFinding } from './answers.ts';
import { type Incident, MAX_UNDECIDED_PART, SLOW_STORE_MS } from './incidents.ts';

/** What the sentence is made of. */
interface SituationFacts {
  readonly nowMs: number;
  readonly isReady: boolean;
  readonly lastMinute: Outcomes;
  /** Requests of the last minute without a decision, by reason. */
  readonly undecidedBy: Readonly<Record<string, number>>;
  readonly store: Status['store'];
  readonly rules: Status['rules'];
  /** The newest first. */
  readonly incidents: readonly Incident[];
  /** Proxies whose requests got no decision. */
  readonly ofProxies: readonly StatusFinding[];
  /** Other things that need attention. */
  readonly others: readonly StatusFinding[];
  /** The path of the rule that refused most in the last minute. */
  readonly refusing?: string | undefined;
}

interface Clause {
  /** over: it is no longer so; calm: nothing is wrong. */
  readonly level: Status['situation']['level'];
  readonly problem: string;
  readonly advice?: string;
  readonly details?: readonly StatusFinding[];
}

/** The situation in one sentence, undecided requests first, then the store, then refusals; and what needs attention. */
export function describeSituation(facts: SituationFacts): {
  readonly situation: Status['situation'];
  readonly findings: readonly StatusFinding[];
} {
  const { store, rules, incidents, nowMs, others } = facts;
  const troubles = [
    ...notReady(facts),
    ...lost(facts),
    ...guessed(facts),
    ...storeTroubles(facts),
    ...ruleTroubles(rules),
  ];
  const past = incidents.filter(
    (one) => one.untilMs !== undefined && nowMs - one.untilMs < windowMs(one) && !isToldOf(one, facts),
  );
  const over = past.map((one): Clause => ({ level: 'over', problem: pastText(one, store.description) }));
  const told = troubles.length === 0 ? others.slice(0, 1) : [];
  const untold = isAway(store) ? 0 : others.length - told.length;
  const more = untold > 0 ? [degraded(`${counted(untold, 'other thing')} to attend to`, '')] : [];
  const clauses = [...troubles, ...told, ...over.slice(0, MAX_PAST), ...refusals(facts), ...more];
  const texts = clauses.length > 0 ? clauses.map(({ problem }) => problem) : calm(facts);
  const level = (['failing', 'degraded', 'over'] as const).find((one) =>
    clauses.some((clause) => clause.level === one),
  );
  const findings = (['failing', 'degraded'] as const).flatMap((of) =>
    troubles.flatMap((one) =>
      one.level === of ? [{ level: of, problem: one.problem, advice: one.advice ?? '' }, ...(one.details ?? [])] : [],
    ),
  );
  const sentence = `${capitalized(texts.join('; '))}.`;
  return { situation: { level: level ?? 'calm', text: sentence, clauses: texts.map(capitalized) }, findings };
}

const capitalized = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** Incidents that are over, in a sentence. */
const MAX_PAST = 2;
const MIN_WINDOW_MS = 600_000;
const MAX_WINDOW_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** For how long an incident that is over is still part of the sentence: as long as it lasted, and ten minutes at least. */
const windowMs = ({ sinceMs, untilMs = sinceMs }: Incident): number =>
  Math.min(Math.max(untilMs - sinceMs, MIN_WINDOW_MS), MAX_WINDOW_MS);

/** Whether requests of the last minute without a decision are those of an outage that is over. */
const isToldOf = ({ kind, untilMs = 0 }: Incident, { nowMs, lastMinute }: SituationFacts): boolean =>
  kind === 'outage' && lastMinute.undecided > 0 && nowMs - untilMs < MINUTE_MS;

/** Whether the store is away, or was within the last minute. */
const wasAway = ({ store, incidents, nowMs }: Pick<SituationFacts, 'store' | 'incidents' | 'nowMs'>): boolean =>
  isAway(store) || incidents.some(({ wasStoreAway, untilMs = nowMs }) => wasStoreAway && nowMs - untilMs < MINUTE_MS);

const failing = (problem: string, advice: string): Clause => ({ level: 'failing', problem, advice });
const degraded = (problem: string, advice: string): Clause => ({ level: 'degraded', problem, advice });

function notReady({ isReady, rules }: SituationFacts): readonly Clause[] {
  if (isReady) return [];
  const why = rules.hash === undefined ? 'no rules are loaded' : 'counters have not been reached since the start';
  return [failing(`requests cannot be decided: ${why}`, '/healthcheck?verbose on the HTTP port has the reason')];
}

/** Requests of the last minute without a decision, with the cause. */
function lost(facts: SituationFacts): readonly Clause[] {
  const { lastMinute } = facts;
  const { undecided } = lastMinute;
  if (undecided === 0) return [];
  const { why, advice } = causeOf(facts);
  const text = `${shareText(undecided, offeredOf(lastMinute))} of the last minute got no decision, and proxies may have let them pass: ${why}`;
  const level = undecided > MAX_UNDECIDED_PART * offeredOf(lastMinute) ? 'failing' : 'degraded';
  const ofStore = wasAway(facts) ? { advice } : {}; // no proxy can help it
  const details = facts.ofProxies.map((one) => ({ ...one, ...ofStore, level }) as const);
  return [{ level, problem: text, advice, details }];
}

/** Requests that were answered without their counters. */
function guessed({ lastMinute, store }: SituationFacts): readonly Clause[] {
  if (lastMinute.degraded === 0) return [];
  const text = `${shareText(lastMinute.degraded, offeredOf(lastMinute))} of the last minute ${be(lastMinute.degraded)} decided without their counters`;
  const why = isAway(store) ? `${nameOf(store.description)} does not answer` : 'the store, or this process, was late';
  return [degraded(text, `${why}: on_store_failure and on_overload of the rules decide meanwhile`)];
}

const storeAdvice = (description: string): string =>
  `counters are ${description}: check it, and the network to it; meanwhile on_store_failure decides`;

function storeTroubles({ store, incidents }: SituationFacts): readonly Clause[] {
  const { description, isUp, reason, lastSuccessAt, openCircuits, lastMinute } = store;
  const since = lastSuccessAt === undefined ? 'has never answered' : `has not answered since ${lastSuccessAt}`;
  const advice = storeAdvice(description);
  if (isUp === false) return [failing(`the store ${since}: ${reason ?? 'no reason known'}`, advice)];
  if (openCircuits.length > 0)
    return [failing(`${openCircuits.join(', ')} did not answer in time, and is called only to probe it`, advice)];
  const isSlow = incidents.some(({ kind, untilMs }) => kind === 'slow_store' && untilMs === undefined);
  if (!isSlow || !lastMinute) return [];
  const text = `${nameOf(description)} is slow: half of its calls take ${lastMinute.p50Ms} ms or more`;
  return [degraded(text, 'see "Is the store slow?" in the runbooks: proxies wait 20 ms by default')];
}

function ruleTroubles({ pending, problems, source }: Status['rules']): readonly Clause[] {
  const [first = 'see the log'] = problems;
  if (pending === null) return [];
  const [are, advice] =
    pending === 'invalid'
      ? ['are invalid', 'correct the rules: weir check finds all problems, and files are loaded within a second']
      : ['could not be read', `reading is tried again; check ${source}`];
  return [degraded(`newer rules ${are}, and the previous ones stay in force: ${first}`, advice)];
}

function refusals({ lastMinute, refusing }: SituationFacts): readonly Clause[] {
  if (lastMinute.refused === 0) return [];
  const by = refusing === undefined ? '' : `, most by ${refusing}`;
  const problem = `${shareText(lastMinute.refused, offeredOf(lastMinute))} of the last minute ${be(lastMinute.refused)} refused${by}`;
  return [{ level: 'calm', problem }];
}

function calm({ lastMinute, incidents, store }: SituationFacts): readonly string[] {
  const offered = offeredOf(lastMinute);
  const [last] = incidents;
  return [
    offered === 0
      ? 'no request came in the last minute'
      : `all ${counted(offered, 'request')} of the last minute passed`,
    ...(last ? [`the last incident: ${pastText(last, store.description)}`] : []),
  ];
}

const reasons: Readonly<Record<string, readonly [why: string, advice: string]>> = {
  overload: ['this process is late', 'add WORKERS, replicas or processor time: the runbook WeirUndecided'],
  late: ['this process answers too late', 'add WORKERS, replicas or processor time: the runbook WeirUndecided'],
  cancelled: [
    'callers gave up before they were answered',
    'raise the timeout of the proxies, or find out why clients leave',
  ],
  in_flight: ['too many calls are in flight', 'callers send faster than they are answered: the runbook WeirUndecided'],
  lost: ['a decider ended while it handled calls', 'the log of the service has how it ended'],
  other: ['requests are invalid, or the service failed', 'the log of the service has the reason'],
};

/** Why requests got no decision. */
function causeOf(facts: SituationFacts): { readonly why: string; readonly advice: string } {
  const { undecidedBy: by, store } = facts;
  const name = nameOf(store.description);
  const counts = Object.entries(by).sort(([, one], [, other]) => other - one);
  const [reason = 'other'] = counts[0] ?? [];
  const all = counts.length > 1 ? ` (${reasonText(by)})` : '';
  const { lastMinute: latency } = store;
  const took = latency ? `, of which ${name} takes ${latency.p99Ms} ms for one call in 100` : '';
  if (reason === 'store' && isAway(store))
    return { why: `${name} does not answer${all}`, advice: storeAdvice(store.description) };
  if (reason === 'store' && wasAway(facts))
    return {
      why: `${name} was away, and answers again${all}`,
      advice: `find out why ${name} was away: the runbook WeirStoreDown`,
    };
  if (reason === 'store' || (reason === 'cancelled' && latency && latency.p50Ms > SLOW_STORE_MS))
    return {
      why: `${name} does not answer in the time that callers give${all}`,
      advice: `raise the timeout of the proxies${took}; see "Is the store slow?" in the runbooks`,
    };
  const [why, advice] = reasons[reason] ?? ['no reason is known', 'see the runbook WeirUndecided'];
  return { why: `${why}${all}`, advice };
}

/** `store 320, late 43`. */
const reasonText = (by: Incident['by']): string =>
  Object.entries(by)
    .sort(([, one], [, other]) => other - one)
    .map(([reason, requests]) => `${reason} ${count(requests)}`)
    .join(', ');

const isAway = ({ isUp, openCircuits }: Status['store']): boolean => isUp === false || openCircuits.length > 0;

const nameOf = (description: string): string =>
  description.startsWith('in Redis') ? 'Redis' : description.startsWith('in memcached') ? 'memcached' : 'the store';

const be = (requests: number): string => (requests === 1 ? 'was' : 'were');

/** `438 of 920 requests (48 %)`. */
const shareText = (part: number, all: number): string =>
  `${count(part)} of ${counted(all, 'request')} (${percent(part, all)} %)`;

function percent(part: number, all: number): string {
  const tenths = Math.round((part / all) * 1_000) / 10;
  return tenths === 0 ? '< 0.1' : String(tenths);
}

/** `Redis was away, and 438 of 920 requests (47.6 %) got no decision: store 320, late 43, cancelled 75`. */
export function incidentText(
  { kind, times, wasStoreAway, offered, undecided, degraded: guesses, by }: Incident,
  store: string,
): string {
  if (kind === 'process')
    return `${times === 1 ? 'a decider ended' : `deciders ended ${times} times`}${lostText(undecided)}, and ${times === 1 ? 'was' : 'were'} replaced`;
  if (kind === 'slow_store') return `${nameOf(store)} was slow: half of its calls took more than ${SLOW_STORE_MS} ms`;
  if (kind === 'rules') return 'newer rules were not in force, since they were invalid or could not be read';
  const parts = [
    ...(wasStoreAway ? [`${nameOf(store)} was away`] : []),
    ...(undecided > 0 ? [`${shareText(undecided, offered)} got no decision: ${reasonText(by)}`] : []),
    ...(guesses > 0 ? [`${shareText(guesses, offered)} ${be(guesses)} decided without their counters`] : []),
  ];
  return parts.join(', and ');
}

const lostText = (lost: number): string => (lost === 0 ? '' : ` with about ${counted(lost, 'call')} in flight`);

function pastText(one: Incident, store: string): string {
  const { sinceMs, untilMs } = one;
  const until = untilMs === undefined ? 'until now' : `to ${rfc3339(untilMs)}`;
  return `${incidentText(one, store)}; ${untilMs === sinceMs ? `at ${rfc3339(sinceMs)}` : `${rfc3339(sinceMs)} ${until}`}`;
}
