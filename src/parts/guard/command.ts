import { resolve4, resolve6 } from 'node:dns/promises';
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Clock } from '../../base/clock.ts';
import { groupBy } from '../../base/group.ts';
import { printableJson } from '../../base/printable.ts';
import { rfc3339 } from '../../base/times.ts';
import { onSignal } from '../../cli/process/process.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { type AddressBlock, parseAddressBlock } from '../../engine/rules/read/address-block.ts';
import { addAccessOptions, command, count, list, span, whole } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, guarded, printAnswer, type Target, toUrl } from '../lab/commands/client.ts';
import type { Paint } from '../lab/commands/paint.ts';
import type { Offender, OffenderList } from './answers.ts';
import type { GuardEvent } from './guard.ts';

interface GuardFlags extends Omit<Target, 'target'> {
  readonly target: readonly string[];
  readonly rule: readonly string[];
  readonly port: readonly number[];
  readonly interface: readonly string[];
  readonly allow: readonly (AddressBlock | 'none')[];
  readonly times: number;
  readonly maxTime: number;
  readonly maxEntries: number;
  readonly enforce: boolean;
}

/** The interval at which the offenders are read: an unblocked address passes again within a second. */
const INTERVAL_MS = 250;
const TIMEOUT_MS = 1_000;
const MAX_TIME_MS = 600_000;

/** Adds the commands that list offenders, and drop their packets. */
export function addGuardCommands(program: Command, surroundings: Surroundings): void {
  addOffendersCommand(program, surroundings);
  addGuardCommand(program, surroundings);
}

function addGuardCommand(program: Command, { clock, print, fail }: Surroundings): void {
  const added = program
    .command('guard')
    .summary('drop packets of offenders (nftables)')
    .description(
      'Drop packets of addresses that weir offenders lists, by nftables, until SIGTERM. Prints a line of JSON for each change. Without --enforce it only prints what it would do.',
    )
    .requiredOption(
      '--rule <path>',
      'rule whose address is that of the connection, not from a header; may be given several times',
      list(String),
    )
    .requiredOption(
      '--port <port>',
      'port of the proxy on this machine, to which packets of TCP and QUIC are dropped; may be given several times',
      list(port),
    )
    .option(
      '--interface <name>',
      'drop only packets that arrive on this network interface, such as eth0; may be given several times',
      list(networkInterface),
      [],
    )
    .option(
      '--allow <block>',
      'addresses to pass always, such as 198.51.100.0/24: balancers, monitoring; none: there are no such; may be given several times',
      list(allowed),
      [],
    )
    .addOption(timesOption())
    .addOption(
      new Option('--max-time <time>', 'maximum time for which an address is dropped, up to 10m')
        .argParser(shortSpan)
        .default(60_000, '1m'),
    )
    .option('--max-entries <n>', 'maximum number of dropped addresses', count, 10_000)
    .option('--enforce', 'drop packets; needs nft and CAP_NET_ADMIN', false)
    .addOption(
      new Option(
        '--target <host:port>',
        'debug port of a service, or of all to which a name in DNS leads; localhost:6070 unless given, may be given several times',
      )
        .argParser(list(String))
        .default([])
        .env('WEIR_TARGET'),
    );
  addAccessOptions(added).action(
    guarded(fail, async (flags: GuardFlags) => {
      if (flags.enforce && flags.allow.length === 0)
        throw new CommandFailed('--enforce requires --allow: name the addresses of balancers and proxies, or none');
      await runGuard(flags, { clock, print });
    }),
  );
}

async function runGuard(flags: GuardFlags, { clock, print }: Pick<Surroundings, 'clock' | 'print'>): Promise<void> {
  const [{ Guard }, { readPeers }, { SPECIAL_BLOCKS }, kernel] = await Promise.all([
    import('./guard.ts'),
    import('./peers.ts'),
    import('./safety.ts'),
    import('./kernel.ts'),
  ]);
  const { enforce, port: ports, interface: interfaces, maxEntries, maxTime: maxMs } = flags;
  const parse = (texts: readonly string[]) => texts.flatMap((one) => parseAddressBlock(one) ?? []);
  const own = Object.values(networkInterfaces()).flatMap((found) => parse((found ?? []).map(({ address }) => address)));
  const guard = new Guard({
    spared: { allowed: flags.allow.filter((one) => one !== 'none'), special: parse(SPECIAL_BLOCKS), own },
    maxMs,
    maxEntries,
  });
  const write = (event: object): void =>
    print(printableJson({ at: rfc3339(clock()), ...event, ...(!enforce && { dryRun: true }) }, 0));
  const stop = new AbortController();
  onSignal(async () => stop.abort());
  const change = async (events: readonly GuardEvent[], byKernel: () => Promise<void>): Promise<void> => {
    if (enforce) await byKernel().catch((error: Error) => Promise.reject(new CommandFailed(error.message)));
    for (const event of events) write(event);
  };
  await change([], () => kernel.createTable({ ports, interfaces, maxEntries }));
  write({ event: 'start', rules: flags.rule, ports, ...(interfaces.length > 0 && { interfaces }) });
  const targets = followTargets(flags, clock);
  let problem: string | undefined;
  try {
    while (!stop.signal.aborted) {
      const found = await targets()
        .then((all) => readOffenders(flags, all))
        .catch((error: Error) => error.message);
      if (typeof found !== 'string') {
        const events = await guard.next(found, clock(), () => readPeers(ports));
        await change(events, () => kernel.applyEvents(events));
      } else if (found !== problem) write({ event: 'fail', reason: found });
      problem = typeof found === 'string' ? found : undefined;
      await sleep(INTERVAL_MS, undefined, { signal: stop.signal }).catch(() => {});
    }
  } finally {
    await change(guard.clear('weir guard ends'), kernel.removeTable);
  }
}

/** A name in DNS is resolved again after this time, since services come and go. */
const RESOLVE_MS = 5_000;

/** The services to ask now: of a name that leads to several, each. Without DNS, and with TLS, a name is one service. */
function followTargets({ target, ca }: GuardFlags, clock: Clock): () => Promise<readonly string[]> {
  let known: readonly string[] = [];
  let untilMs = 0;
  const resolve = async (written: string): Promise<readonly string[]> => {
    const { hostname, port, protocol } = await toUrl(written, '/', ca === undefined ? 'http' : 'https');
    if (protocol === 'https:') return [written];
    const found = await resolve4(hostname).catch(() => resolve6(hostname).catch(() => []));
    return found.length < 2 ? [written] : found.map((one) => `${one.includes(':') ? `[${one}]` : one}:${port || 80}`);
  };
  return async () => {
    if (clock() < untilMs) return known;
    const written = target.length > 0 ? target : ['localhost:6070'];
    known = (await Promise.all(written.map(resolve))).flat();
    untilMs = clock() + RESOLVE_MS;
    return known;
  };
}

/**
 * The offenders of all services that answer, each with the sum of its refusals: at one of them there are at least its
 * part of the total.
 *
 * @throws CommandFailed  none answers
 */
async function readOffenders(
  { rule: rules, times, token, ca }: GuardFlags,
  targets: readonly string[],
): Promise<readonly Offender[]> {
  const lists = await Promise.allSettled(
    targets.flatMap((target) =>
      rules.map((rule) => {
        const query = { rule, times: Math.ceil(times / targets.length) };
        const call = { operation: 'GET /api/v1/offenders', query, timeoutMs: TIMEOUT_MS } as const;
        return callApi({ target, token, ca }, call);
      }),
    ),
  );
  const answers = lists.filter((one) => one.status === 'fulfilled');
  const failed = lists.find((one) => one.status === 'rejected');
  if (answers.length === 0 && failed) throw failed.reason;
  const found = answers.flatMap(({ value }) => value.offenders);
  const byAddress = groupBy(found, ({ rule, address }) => JSON.stringify([rule, address]));
  return Array.from(byAddress.values(), (some) => ({
    ...(some.at(-1) as Offender), // at least one
    refused: some.reduce((sum, { refused }) => sum + refused, 0),
  }))
    .filter(({ refused, admits }) => refused >= times * admits)
    .sort((one, other) => other.refused - one.refused);
}

function shortSpan(written: string): number {
  const ms = span(written);
  if (ms <= MAX_TIME_MS) return ms;
  throw new InvalidArgumentError('expected at most 10m.');
}

const port = whole(1, 65_535, 'a port');

/**
 * Parses a name that the kernel accepts.
 *
 * @see https://man7.org/linux/man-pages/man8/ip-link.8.html
 */
function networkInterface(written: string): string {
  if (/^[^\s/*]{1,15}$/.test(written)) return written;
  throw new InvalidArgumentError('expected the name of a network interface, such as eth0.');
}

function allowed(written: string): AddressBlock | 'none' {
  const block = written === 'none' ? written : parseAddressBlock(written);
  if (block) return block;
  throw new InvalidArgumentError('expected none, or a block of IP addresses such as 198.51.100.0/24 or 2001:db8::1.');
}

/** Adds the command that lists offenders. */
function addOffendersCommand(program: Command, surroundings: Surroundings): void {
  const offenders = command(program, 'offenders', 'list addresses refused again and again')
    .description('List addresses that were refused many times their limit in the last minute.')
    .addOption(timesOption())
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many', count, 50)
    .option('--follow', 'print it again every two seconds', false);
  printAnswer(offenders, surroundings, {
    call: ({ times, rule, count: most }: { times: number; rule?: string; count: number }) => ({
      operation: 'GET /api/v1/offenders',
      query: { times, rule, count: most },
    }),
    render: renderOffenders,
  });
}

const timesOption = (): Option =>
  new Option('--times <n>', 'refused at least this many times what the limit admits').argParser(count).default(10);

function renderOffenders({ offenders, more, times }: OffenderList, paint: Paint): string {
  if (offenders.length === 0) return `no address was refused ${times} times its limit in the last minute`;
  const lines = offenders.map(
    ({ address, refused, limit, rule }) =>
      `${paint.strong(address)}  ${refused} refused in the last minute  ${paint.dim(`${rule}: ${limit}`)}`,
  );
  return [...lines, ...(more > 0 ? [`and ${more} more: --count`] : [])].join('\n');
}
