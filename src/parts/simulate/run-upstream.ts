import { printableJson } from '../../base/printable.ts';
import { counted, table } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { limitsInFlight } from '../../engine/holds/limits.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import { CommandFailed } from '../lab/commands/client.ts';
import { loadRulesAt, loadRulesText, loadSettings } from '../lab/commands/load-rules.ts';
import { upstreamChanges } from './scenario-names.ts';
import { runUpstream, type Source, servedP99Ms, servedPerSecond, type UpstreamRun } from './upstream.ts';

/** Options of `weir simulate --upstream`. */
export interface UpstreamFlags {
  readonly upstream: { readonly workers: number; readonly workMs: number };
  /** Requests per second. Default: 1.5 times what the upstream can serve. */
  readonly arrivals?: number;
  readonly clients?: number;
  readonly change: keyof typeof upstreamChanges;
  readonly rules?: string;
  readonly against?: string;
  readonly seed: number;
  readonly json: boolean;
}

const OWN_RULES = `domain: demo
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, adapt: {} }
`;

const PHASE_MS = 30_000;
/** The part of a phase in which a limit may look for the capacity. */
const FINDS_MS = 10_000;

/**
 * Simulates an upstream behind the limit on requests in flight of a rule.
 *
 * @throws CommandFailed if rules or settings are invalid, or have not exactly one such limit
 */
export async function runUpstreamSimulation(
  flags: UpstreamFlags,
  { env, print }: Pick<Surroundings, 'env' | 'print'>,
): Promise<void> {
  const settings = await loadSettings(env);
  const { upstream, arrivals, clients, change, rules, against, seed, json } = flags;
  const trees = [rules === undefined ? loadRulesText('own', OWN_RULES) : await loadRulesAt(rules, [], settings)];
  if (against !== undefined) trees.push(await loadRulesAt(against, [], settings));
  const capacity = (upstream.workers * 1_000) / upstream.workMs;
  const source: Source = clients === undefined ? { arrivals: arrivals ?? 1.5 * capacity } : { clients };
  const phases = [{ forMs: PHASE_MS }, { forMs: PHASE_MS, ...upstreamChanges[change] }, { forMs: PHASE_MS }];
  const reports = trees.map(({ rules: all }, at) => {
    const found = [...all].flatMap(({ limits }) => limits.filter(({ limit }) => limitsInFlight(limit)));
    const [one, more] = found;
    if (!one || more) {
      const name = (at === 0 ? rules : against) ?? 'the rules';
      throw new CommandFailed(`${name}: expected one limit with algorithm: in_flight, got ${found.length}`);
    }
    const { limit } = one;
    const run = runUpstream({ ...upstream, limit, isEven: true, sources: [source], phases, seed });
    return { limit: describeLimit(one), phases: phases.map((_, phase) => figuresOf(run, phase)) };
  });
  if (json) return print(printableJson({ capacity, ...source, change, limits: reports }));
  const load = 'clients' in source ? counted(source.clients, 'client') : `arrivals: ${source.arrivals} per second`;
  print(
    [
      `${counted(upstream.workers, 'worker')}, ${upstream.workMs} ms for a request: ${round(capacity)} requests per second; ${load}`,
      ...reports.flatMap((report) => ['', report.limit, ...table([HEAD, ...report.phases.map(row)])]),
    ].join('\n'),
  );

  function row(figures: ReturnType<typeof figuresOf>, at: number): readonly string[] {
    const { served, servedAfter10s, refused, failed, p99Ms, slots } = figures;
    const name = at === 1 ? change : ['before', '', 'after'][at];
    const rates = [served, servedAfter10s, refused, failed].map((perSecond) => String(round(perSecond)));
    return [`  ${name}`, ...rates, `${p99Ms} ms`, slots.join(' to ')];
  }
}

const HEAD = ['', 'served/s', 'after 10 s', 'refused/s', 'failed/s', 'p99', 'slots'];

/** Rates per second in a phase; after its first ten seconds the p99 of served requests, and the range of slots. */
function figuresOf({ ended, limits }: UpstreamRun, phase: number) {
  const [fromMs, toMs] = [phase * PHASE_MS, (phase + 1) * PHASE_MS];
  const count = (outcome: 'refused' | 'failed'): number =>
    ended.filter((one) => one.outcome === outcome && one.atMs >= fromMs && one.atMs < toMs).length;
  const later = limits.slice((fromMs + FINDS_MS) / 1_000, toMs / 1_000);
  return {
    served: servedPerSecond(ended, fromMs, toMs),
    servedAfter10s: servedPerSecond(ended, fromMs + FINDS_MS, toMs),
    refused: count('refused') / (PHASE_MS / 1_000),
    failed: count('failed') / (PHASE_MS / 1_000),
    p99Ms: servedP99Ms(ended, fromMs + FINDS_MS, toMs),
    slots: [Math.min(...later), Math.max(...later)],
  };
}

const round = (value: number): number => Math.round(value * 10) / 10;
