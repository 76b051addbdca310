import { groupBy } from '../../base/group.ts';
import { rfc3339 } from '../../base/times.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { countProblems, formatProblem, isUnread } from '../../engine/rules/read/problem.ts';
import type { AdminOptions, KnownFinding, SourcedRules } from '../../operate/admin/options.ts';
import type { View } from '../../operate/admin/scope.ts';
import { type Shown, shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { WorkName } from '../../operate/answers/service.ts';
import { failingText, type WorkReport } from '../../operate/observe/work-state.ts';
import type { Gatherer } from '../../operate/status/gatherer.ts';
import type { StoreLatency } from '../../operate/status/store-latency.ts';
import type { ListedIncident, Status, StatusFinding } from './answers.ts';
import type { Incident, Incidents } from './incidents.ts';
import { describeSituation, incidentText } from './situation.ts';

/** The situation and what needs attention, for the status and for the console. */
export type Attention = Pick<Status, 'situation' | 'findings' | 'incidents' | 'lastMinute' | 'store' | 'rules'>;

export function describeAttention(
  options: AdminOptions,
  { service, latency }: Gatherer,
  incidents: Incidents,
  isFor: View,
): Attention {
  const nowMs = options.clock();
  const store = describeStore(options, latency);
  const rules = describeRules(options.sourced, typeof isFor !== 'object');
  const lastMinute = service.lastMinute();
  const standing = options.findings().filter((one) => typeof isFor !== 'object' || isFor.hasNamed(one));
  const shown = shownBy(isFor !== 'hidden', options.hash);
  const problemsOf = (isUndecided: boolean): StatusFinding[] =>
    standing.flatMap((one) => ((one.kind === 'undecided') === isUndecided ? [configurationProblem(one, shown)] : []));
  const others = [...workProblems(options.background()), ...problemsOf(false)];
  const all = incidents.list();
  const { situation, findings } = describeSituation({
    isReady: options.isReady(),
    undecidedBy: service.undecidedBy(),
    incidents: all,
    refusing: typeof isFor === 'object' ? undefined : options.refusing(isFor),
    ofProxies: problemsOf(true),
    ...{ others, nowMs, lastMinute, store, rules },
  });
  return {
    situation,
    findings: [...findings, ...others],
    incidents: all.map((one) => listIncident(one, store.description)),
    ...{ lastMinute, store, rules },
  };
}

function describeStore(options: AdminOptions, latency: StoreLatency): Status['store'] {
  const state = options.store();
  const [lastMinute, lastDay] = [latency.minute(), latency.day()];
  return {
    description: options.storeDescription(),
    failures: options.statistics.failures.store,
    openCircuits: [...options.openCircuits()].flatMap(([node, open]) => (open > 0 ? [node] : [])),
    ...(state && { isUp: state.isUp }),
    ...(state?.reason !== undefined && { reason: state.reason }),
    ...(state?.latencyMs !== undefined && { latencyMs: Math.round(state.latencyMs * 100) / 100 }),
    ...(state?.lastSuccessAtMs !== undefined && { lastSuccessAt: rfc3339(state.lastSuccessAtMs) }),
    ...(lastMinute && { lastMinute }),
    ...(lastDay && { lastDay }),
  };
}

const MAX_SHOWN_PROBLEMS = 20;

/** @param hasTexts  whether problems are shown, which name rules of all domains */
function describeRules({ book, inForce, lastLoad, description }: SourcedRules, hasTexts: boolean): Status['rules'] {
  const loaded = inForce();
  const last = lastLoad();
  const problems = last && !last.ok ? last.problems : [];
  const atMost = hasTexts ? MAX_SHOWN_PROBLEMS : 0;
  return {
    source: description,
    count: book.rules()?.rules.length ?? 0,
    pending: (loaded?.isNewest ?? true) ? null : isUnread(problems) ? 'unread' : 'invalid',
    problems: problems.slice(0, atMost).map(formatProblem),
    moreProblems: Math.max(countProblems(problems) - atMost, 0),
    ...(loaded && { hash: loaded.hash, loadedAt: rfc3339(loaded.atMs) }),
  };
}

function listIncident(one: Incident, store: string): ListedIncident {
  const { kind, sinceMs, untilMs, offered, undecided } = one;
  const until = untilMs === undefined ? {} : { until: rfc3339(untilMs) };
  return { kind, since: rfc3339(sinceMs), ...until, text: incidentText(one, store), offered, undecided };
}

/** What to do about work that fails. */
const adviceOnWork: Readonly<Record<WorkName, string>> = {
  usage:
    'usage stays in the store of the counters until it can be collected: check USAGE_DIR or USAGE_URL, and that store',
  usage_retention: 'correct the clock; usage is deleted again once it is plausible',
  usage_rows: 'the other rows are kept; the runbook of WeirBackgroundFailing says how to find and release these',
  recording: 'requests that are missing in the recording are counted in it; check the disk of RECORD_TO',
  audit_log: 'operators can change nothing meanwhile: check the disk of AUDIT_LOG',
  overrides: 'what was read last applies: check the store of the counters',
  candidate: 'what was read last applies: check the store of the counters',
  statistics: 'check STATSD_HOST, STATSD_PORT and the network to it',
  traces: 'spans are lost meanwhile: check OTEL_EXPORTER_OTLP_ENDPOINT and the network to it',
  findings: 'mistakes in the configurations of proxies are not found meanwhile; please report this',
  notifications:
    'events are sent again for four minutes, and then dropped: check NOTIFY_WEBHOOK_URL and the network to it',
  replicas: 'limits with per_replica keep the last number, or their min: check the name or the file in `replicas`',
  sites: 'shared limits have only the part of this site: weir sites shows the exchanges',
};

/** Work that reads what operators have set from the store of the counters, and fails with it. */
const ofRecords: ReadonlySet<WorkName> = new Set(['overrides', 'candidate']);

/** What fails; work that fails for the same reason, since the store is away, is one. */
function workProblems(all: readonly WorkReport[]): StatusFinding[] {
  const failing = all.flatMap(({ failing: one, ...work }) => (one ? { ...work, ...one } : []));
  const groups = groupBy(failing, ({ name }) => (ofRecords.has(name) ? 'records' : name));
  return Array.from(groups.values(), (same) => {
    const first = same.reduce((one, other) => (other.sinceMs < one.sinceMs ? other : one));
    const does = same.map((one) => one.does).join(' and ');
    return degraded(
      `${does} ${same.length > 1 ? 'have' : 'has'} been failing ${failingText(first)}`,
      adviceOnWork[first.name],
    );
  });
}

function configurationProblem({ problem, sinceMs, configuration, example }: KnownFinding, shown: Shown): StatusFinding {
  const shownExample = example.length === 0 ? '' : `; example ${descriptorText(shownEntries(example, shown))}`;
  return degraded(
    `${problem}; since ${rfc3339(sinceMs)}${shownExample}`,
    `check in the configuration of the proxy: ${configuration}`,
  );
}

const degraded = (problem: string, advice: string): StatusFinding => ({ level: 'degraded', problem, advice });
