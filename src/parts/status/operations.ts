import { memoryUsage } from 'node:process';
import { rfc3339 } from '../../base/times.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { chooseView, type View } from '../../operate/admin/scope.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { CandidateFacts } from '../../operate/candidate/book.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import type { WorkReport } from '../../operate/observe/work-state.ts';
import type { Instance, Status, StatusFinding } from './answers.ts';
import type { Attention } from './attention.ts';
import type { Heartbeat } from './instances.ts';

/** What the status tells of. */
interface StatusOptions extends AdminOptions {
  readonly attention: (isFor: View) => Attention;
  readonly startedAtMs: number;
  /** Undefined: instances cannot list each other. */
  readonly heartbeat: Pick<Heartbeat, 'list'> | undefined;
  /** This instance. */
  readonly self: () => Instance;
}

/** Operations that say whether the service works, and which instances there are. */
export const statusOperations = (options: StatusOptions): readonly ApiOperation[] => [
  operation('GET /api/v1/status', {
    summary: 'whether the service works, and what needs attention',
    need: 'open',
    domains: 'selected',
    answers:
      '`health` is `failing` while requests are not decided by their counters, `degraded` while something else needs attention. `findings` has a problem and an advice for each reason, the worst first.',
    answer: (call) => readStatus(options, chooseView(call)),
  }),
  operation('GET /api/v1/instances', {
    summary: 'the instances on the same Redis',
    need: 'open',
    domains: 'any',
    answers:
      'Instances that reported in the last 20 seconds, the oldest first; without Redis, only the one that answers.',
    answer: () => listInstances(options),
  }),
];

async function readStatus(options: StatusOptions, isFor: View): Promise<Status> {
  const { clock, version, startedAtMs, statistics } = options;
  const { findings: found, ...attention } = options.attention(isFor);
  const facts = {
    version,
    startedAt: rfc3339(startedAtMs),
    atMs: clock(),
    ...attention,
    undecided: { ...statistics.undecided },
    overrides: describeOverrides(options.overrides.all()),
    candidate: describeCandidate(options.candidate.facts),
    workers: { expected: options.settings.workers, restarts: options.restarts() },
    background: options.background().map(describeWork),
    memory: memoryByOwner(options.figures(), memoryUsage.rss()),
    ...(await readInstances(options)),
  };
  const findings = [...found, ...instanceProblems(facts.instances)];
  return { health: findings[0]?.level ?? 'healthy', findings, ...facts };
}

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

function memoryByOwner(figures: ReportedFigures, ownBytes: number): Status['memory'] {
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

/** @throws ApiProblem  503: Redis cannot be reached */
async function listInstances({ heartbeat, self }: StatusOptions): Promise<Answers['GET /api/v1/instances']> {
  if (!heartbeat) return { instances: [self()] };
  const instances = await heartbeat.list().catch((error: unknown) => {
    throw new ApiProblem(503, `Redis cannot be reached: ${error instanceof Error ? error.message : error}`);
  });
  return { instances };
}

async function readInstances(options: StatusOptions): Promise<Pick<Status, 'instances' | 'instancesNote'>> {
  const { heartbeat, self } = options;
  if (!heartbeat) return { instances: [self()], instancesNote: 'others are listed only with counters in Redis' };
  return listInstances(options).catch(({ message }: ApiProblem) => ({
    instances: [self()],
    instancesNote: `others are not listed, since ${message}`,
  }));
}

function instanceProblems(instances: readonly Instance[]): StatusFinding[] {
  const own = instances.find(({ isThis }) => isThis);
  const others = instances.filter(({ rules }) => rules !== own?.rules).map(({ name }) => name);
  if (others.length === 0) return [];
  return [
    {
      level: 'degraded',
      problem: `${others.join(', ')} and this instance have different rules`,
      advice: 'run weir status on each: one has not received the newest rules, or has refused them',
    },
  ];
}
