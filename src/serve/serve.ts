import type { Clock } from '../base/clock.ts';
import { take } from '../base/slices.ts';
import type { StoreTraits } from '../engine/rules/compile/fit.ts';
import { describeLimit } from '../engine/rules/match/describe.ts';
import { placedNodes } from '../engine/rules/match/level.ts';
import type { Level, RuleTree } from '../engine/rules/match/tree.ts';
import { createLogger } from '../operate/observe/log.ts';
import { logRuleLoads } from '../operate/observe/rule-loads.ts';
import { createStatistics } from '../operate/observe/stats.ts';
import type { Settings } from '../settings/settings.ts';
import { spendProblemOf } from '../settings/store-traits.ts';
import { openCore } from './core.ts';
import { openRules } from './open/rules.ts';
import { whenNeverReached } from './open/store.ts';
import { openTls } from './open/transport.ts';
import { openOps } from './ops.ts';
import { contextOf } from './parts/process-context.ts';
import { CannotStart, openParts } from './parts/start-up.ts';
import { openLocalResponder } from './responder.ts';
import { openWorkers } from './workers/pool.ts';

/** A running service. */
interface Service {
  /** Printed at the start. */
  readonly banner: string;
  /** Resolves with the reason if the service can never work. */
  readonly failed: Promise<CannotStart>;
  /**
   * Finishes the calls in flight, then stops.
   *
   * @param reason  for the log, such as the signal
   */
  close(reason?: string): Promise<void>;
}

/**
 * Opens the parts of the service: counters and rules, the responders, the operators' port, then the servers. `close`
 * closes them in reverse order.
 *
 * @throws CannotStart if rules at a plain path are invalid, an address cannot be bound, or certificates cannot be used
 */
export async function serve(settings: Settings, clock: Clock, version: string): Promise<Service> {
  const log = createLogger(settings.log);
  for (const warning of settings.warnings) log.warn(warning);
  const spendProblem = spendProblemOf(settings.counters);
  if (spendProblem?.isFatal) throw new CannotStart(spendProblem.message);
  if (spendProblem) log.warn(spendProblem.message);

  const { workers } = settings;
  const context = contextOf(clock, log, settings.recording !== undefined);
  const { core, ops, servers, close } = await openParts(async (add) => {
    const statistics = createStatistics(settings.statistics.nearLimitRatio, settings.statistics.maxNameBytes);
    const open = (traits: StoreTraits) => openRules(settings.rules, traits, logRuleLoads(statistics, log), context);
    const core = add(await openCore(settings, open, context));
    const { tls } = settings.grpc;
    if (workers > 1 && tls) add(await openTls('GRPC_SERVER_USE_TLS', tls.files, context)); // to pass them to workers
    const responders = add(
      workers > 1
        ? openWorkers(settings, core.rules, statistics, log)
        : await openLocalResponder(settings, core, statistics, context),
    );
    const ops = add(await openOps(settings, { core, responders, statistics, version }, context));
    const servers = add(await responders.listen(ops.onCallFinished));
    add(core.readiness);
    return { core, ops, servers };
  });

  const { rules, store } = core;
  let isClosing = false;
  return {
    banner: banner({
      ...{ version, workers, grpc: servers.grpc, http: servers.http, debug: ops.debug },
      console: consoleAddress(settings.debug.tls !== undefined, ops.debug),
      ...{ rulesFrom: rules.description, notes: rules.notes, rules: rules.book.rules(), counters: store.description },
    }),
    failed: whenNeverReached(settings.counters.startup.maxElapsedMs, store),
    async close(reason) {
      if (reason !== undefined && !isClosing) log.info(`shutting down: ${reason}`);
      isClosing = true;
      await close();
    },
  };
}

/** The most rules that are listed individually; the rest are counted. */
const LISTED_RULES = 10;

interface Running {
  readonly version: string;
  readonly rulesFrom: string;
  /** Details of how the rules are read, unless they are obvious. */
  readonly notes: readonly string[];
  readonly rules: RuleTree | undefined;
  readonly counters: string;
  /** The number of processes that answer requests. */
  readonly workers: number;
  readonly grpc: string;
  readonly http: string;
  readonly debug: string;
  /** The address of the console for a browser on this machine. */
  readonly console: string;
}

/** The text printed at the start: the rules, the addresses, and a command to try. */
function banner(running: Running): string {
  const { version, rulesFrom, notes, rules, counters, workers, grpc, http, debug, console } = running;
  const listed = Array.from(take(LISTED_RULES, rules?.rules ?? []), ({ path, unlimited, limits }) => {
    return `            ${path}: ${unlimited ? 'unlimited' : limits.map(describeLimit).join(', ')}`;
  });
  const more = (rules?.rules.length ?? 0) - LISTED_RULES;
  return [
    `Weir ${version}`,
    `  rules     ${rulesFrom}: ${rules ? count(rules) : 'none yet'}`,
    ...notes.map((note) => `            note: ${note}`),
    ...listed,
    ...(more > 0 ? [`            … and ${more} more: see /rlconfig on the debug port`] : []),
    `  counters  ${counters}`,
    ...(workers > 1 ? [`  workers   ${workers} processes`] : []),
    `  gRPC      ${grpc}`,
    `  HTTP      ${http}  (/json, /healthcheck)`,
    `  debug     ${debug}  (/rlconfig, /metrics)`,
    `  console   ${console}`,
    ...(rules ? [`  try       ${exampleCommand(rules, grpc)}`] : []),
  ].join('\n');
}

const count = ({ domains, rules }: RuleTree): string =>
  `${plural(domains.size, 'domain')}, ${plural(rules.length, 'rule')}`;
const plural = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** A command whose request matches the first rule of the first domain. */
function exampleCommand({ domains }: RuleTree, grpc: string): string {
  const [domain] = domains.values();
  const entries = domain ? exampleEntries(domain.root) : undefined;
  const port = grpc.slice(grpc.lastIndexOf(':') + 1);
  const target = port === '8081' ? '' : ` --target localhost:${port}`;
  return `npx weir ask ${domain?.name ?? 'demo'} ${entries?.join(',') ?? 'user=alice'}${target}`;
}

function exampleEntries(level: Level): readonly string[] | undefined {
  for (const { key, value, node } of placedNodes(level)) {
    const entry = `${key.text}=${value.kind === 'any_value' ? 'alice' : value.example('')}`;
    if (node.rule) return [entry];
    const below = node.children && exampleEntries(node.children);
    if (below) return [entry, ...below];
  }
  return undefined;
}

/**
 * The address of the console for a browser on this machine.
 *
 * @param debug  the address of the debug port
 */
function consoleAddress(hasTls: boolean, debug: string): string {
  const at = debug.lastIndexOf(':');
  const host = debug.slice(0, at);
  const isAny = ['0.0.0.0', '::', '[::]', '', '127.0.0.1', '::1'].includes(host);
  return `${hasTls ? 'https' : 'http'}://${isAny ? 'localhost' : host}:${debug.slice(at + 1)}/console/`;
}
