import { memoryUsage } from 'node:process';
import { counted } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { type ApiOperation, operation } from '../admin/api.ts';
import type { Instance } from '../answers/service.ts';
import type { Status, StatusFinding, WorkName } from '../answers/status.ts';
import type { CandidateFacts } from '../candidate/book.ts';
import type { StandingFinding } from '../findings/findings.ts';
import { failingText, type WorkReport } from '../observe/work-state.ts';
import { type HealthFacts, healthFacts } from './health-facts.ts';
import type { ConsoleOptions } from './series-operations.ts';

/** The operation that says whether the service works, and what needs attention. */
export const statusOperation = (options: ConsoleOptions): ApiOperation =>
  operation('GET /api/v1/status', {
    summary: 'whether the service works, and what needs attention',
    need: 'open',
    answers:
      '`health` is `failing` while requests are not decided by their counters, `degraded` while something else needs attention. `findings` has a problem and an advice for each reason, the worst first.',
    answer: () => readStatus(options),
  });

async function readStatus(options: ConsoleOptions): Promise<Status> {
  const { clock, version, live, statistics, sourced } = options;
  const health = healthFacts(options);
  const facts = {
    version,
    startedAt: rfc3339(live.startedAtMs),
    atMs: clock(),
    lastMinute: sumMinute(live.service.columns('60s')),
    undecided: { ...statistics.undecided },
    store: describeStore(health, statistics.failures.store),
    rules: describeRules(health.rules, sourced.description),
    overrides: describeOverrides(options.followed.all()),
    candidate: describeCandidate(sourced.candidate.facts),
    workers: { ...health.workers },
    background: options.background().map(describeWork),
    memory: memoryByOwner(health.figures, memoryUsage.rss()),
    ...(await listInstances(options)),
  };
  const findings = [
    ...findProblems(facts, options.isReady()),
    ...options.background().flatMap(workProblems),
    ...options.findings.list().map((one) => proxyProblem(one, facts.lastMinute)),
  ].sort((one, other) => Number(other.level === 'failing') - Number(one.level === 'failing')); // a stable sort
  return { health: findings[0]?.level ?? 'healthy', findings, ...facts };
}

const sumMinute = (columns: Readonly<Record<string, readonly number[]>>): Status['lastMinute'] => {
  const sum = (field: string): number => Math.round((columns[field] ?? []).reduce((total, rate) => total + rate, 0));
  return { passed: sum('passed'), refused: sum('refused'), undecided: sum('undecided'), degraded: sum('degraded') };
};

function describeStore({ store, circuits }: HealthFacts, failures: number): Status['store'] {
  const { lastSuccessAtMs, ...state } = store;
  return {
    ...state,
    failures,
    openCircuits: circuits.filter(({ open }) => open > 0).map(({ node }) => node),
    ...(lastSuccessAtMs !== undefined && { lastSuccessAt: rfc3339(lastSuccessAtMs) }),
  };
}

const describeRules = (
  { isNewest, isUnread, hash, loadedAtMs, count, problems, moreProblems }: HealthFacts['rules'],
  source: string,
): Status['rules'] => ({
  source,
  count,
  pending: isNewest ? null : isUnread ? 'unread' : 'invalid',
  problems,
  moreProblems,
  ...(hash !== undefined && { hash }),
  ...(loadedAtMs !== undefined && { loadedAt: rfc3339(loadedAtMs) }),
});

const describeWork = ({ name, does, failing }: WorkReport): Status['background'][number] => ({
  name,
  does,
  ...(failing && { since: rfc3339(failing.sinceMs), reason: failing.reason }),
});

function describeOverrides(all: Iterable<StandingOverride>): Status['overrides'] {
  const ends = Array.from(all, ({ untilMs }) => untilMs);
  return { count: ends.length, ...(ends.length > 0 && { nextEnd: rfc3339(Math.min(...ends)) }) };
}

const describeCandidate = ({ state, hash, loadedAtMs }: CandidateFacts): Status['candidate'] => ({
  state,
  ...(hash !== undefined && { hash }),
  ...(loadedAtMs !== undefined && { loadedAt: rfc3339(loadedAtMs) }),
});

function memoryByOwner(figures: HealthFacts['figures'], ownBytes: number): Status['memory'] {
  const { rssBytes, heapBytes, callerBytes, callerMaxBytes, memoryBytes, memoryCounters = 0 } = figures;
  return [
    { kind: 'all', owner: 'all processes', bytes: rssBytes },
    { kind: 'process', owner: 'deciders', bytes: Math.max(rssBytes - ownBytes, 0) },
    { kind: 'process', owner: 'control process', bytes: ownBytes },
    { kind: 'use', owner: 'JavaScript heaps', bytes: heapBytes },
    ...(memoryBytes === undefined
      ? []
      : [{ kind: 'use' as const, owner: 'counters', bytes: memoryBytes, counters: memoryCounters }]),
    { kind: 'use', owner: 'buffers for callers', bytes: callerBytes, maxBytes: callerMaxBytes },
  ];
}

async function listInstances({
  self,
  heartbeat,
}: ConsoleOptions): Promise<Pick<Status, 'instances' | 'instancesNote'>> {
  if (!heartbeat) return { instances: [self()], instancesNote: 'others are listed only with counters in Redis' };
  try {
    return { instances: await heartbeat.list() };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { instances: [self()], instancesNote: `others are not listed, since Redis cannot be reached: ${why}` };
  }
}

/** Above this part of the requests, those without a decision are no exceptions. */
const MAX_UNDECIDED_PART = 0.01;

type Facts = Omit<Status, 'health' | 'findings'>;

/** The reasons not to be healthy, besides failing work and what proxies do. */
const findProblems = (facts: Facts, isReady: boolean): readonly StatusFinding[] => [
  ...(isReady ? [] : [notReady(facts)]),
  ...storeProblems(facts.store),
  ...degradedProblems(facts.lastMinute),
  ...ruleProblems(facts.rules),
  ...instanceProblems(facts.instances),
];

const failing = (problem: string, advice: string): StatusFinding => ({ level: 'failing', problem, advice });
const degraded = (problem: string, advice: string): StatusFinding => ({ level: 'degraded', problem, advice });

function notReady({ rules }: Facts): StatusFinding {
  const why = rules.hash === undefined ? 'no rules are loaded' : 'counters have not been reached since the start';
  return failing(`requests cannot be decided: ${why}`, '/healthcheck?verbose on the HTTP port has the reason');
}

function storeProblems({ description, isUp, reason, lastSuccessAt, openCircuits }: Status['store']): StatusFinding[] {
  const advice = `counters are ${description}: check it, and the network to it; meanwhile on_store_failure decides`;
  const since = lastSuccessAt === undefined ? 'has never answered' : `has not answered since ${lastSuccessAt}`;
  if (isUp === false) return [failing(`the store ${since}: ${reason ?? 'no reason known'}`, advice)];
  if (openCircuits.length === 0) return [];
  return [failing(`${openCircuits.join(', ')} did not answer in time, and is called only to probe it`, advice)];
}

function degradedProblems({ degraded: guesses }: Status['lastMinute']): StatusFinding[] {
  if (guesses === 0) return [];
  const guessed = `${counted(guesses, 'decision')} of the last minute made without counters, by on_store_failure or on_overload`;
  return [degraded(guessed, 'the store was the reason if it has been down; else see the runbook WeirUndecided')];
}

function ruleProblems({ pending, problems, source }: Status['rules']): StatusFinding[] {
  const [first = 'see the log'] = problems;
  switch (pending) {
    case 'invalid':
      return [
        degraded(
          `newer rules are invalid, and the previous ones stay in force: ${first}`,
          'correct them: weir check finds all problems, and files are loaded within a second',
        ),
      ];
    case 'unread':
      return [
        degraded(
          `newer rules could not be read, and the previous ones stay in force: ${first}`,
          `reading is tried again; check ${source}`,
        ),
      ];
    case null:
      return [];
  }
}

/** What to do about work that fails. */
const adviceOnWork: Readonly<Record<WorkName, string>> = {
  usage:
    'usage stays in the store of the counters until it can be collected: check USAGE_DIR or USAGE_URL, and that store',
  usage_retention: 'correct the clock; usage is deleted again once it is plausible',
  usage_rows: 'the other rows are kept; the runbook of WeirBackgroundFailing says how to find and release these',
  recording: 'requests that are missing in the recording are counted in it; check the disk of RECORD_TO',
  audit_log: 'operators can change nothing meanwhile: check the disk of AUDIT_LOG',
  overrides: 'the overrides that were read last apply: check the store of the counters',
  candidate: 'the candidate that was read last is tried: check the store of the counters',
  statistics: 'check STATSD_HOST, STATSD_PORT and the network to it',
  findings: 'mistakes in the configurations of proxies are not found meanwhile; please report this',
  sites: 'shared limits have only the part of this site: weir sites shows the exchanges',
};

const workProblems = ({ name, does, failing }: WorkReport): StatusFinding[] =>
  failing ? [degraded(`${does} has been failing ${failingText(failing)}`, adviceOnWork[name])] : [];

function proxyProblem(
  { kind, problem, sinceMs, configuration }: StandingFinding,
  { passed, refused, undecided }: Status['lastMinute'],
): StatusFinding {
  const isMuch = kind === 'undecided' && undecided > MAX_UNDECIDED_PART * (passed + refused + undecided);
  const advice = `check in the configuration of the proxy: ${configuration}`;
  return (isMuch ? failing : degraded)(`${problem}; since ${rfc3339(sinceMs)}`, advice);
}

function instanceProblems(instances: readonly Instance[]): StatusFinding[] {
  const own = instances.find(({ isThis }) => isThis);
  const others = instances.filter(({ rules }) => rules !== own?.rules).map(({ name }) => name);
  if (others.length === 0) return [];
  return [
    degraded(
      `${others.join(', ')} and this instance have different rules`,
      'run weir status on each: one has not received the newest rules, or has refused them',
    ),
  ];
}
