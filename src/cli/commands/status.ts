import type { Command } from 'commander';
import { count, counted, table } from '../../base/texts.ts';
import { parseTime } from '../../base/times.ts';
import type { Status } from '../../operate/answers/status.ts';
import { command, type ServiceFlags, type Surroundings } from './admin.ts';
import { CommandFailed, callApi, repeat, show } from './client.ts';
import { duration, type Paint } from './paint.ts';

const exitCodes = { healthy: 0, degraded: 1, failing: 2 } as const;

/** Adds the command that says whether a service works. */
export function addStatusCommand(program: Command, surroundings: Surroundings): void {
  const { fail, exitWith } = surroundings;
  command(program, 'status', 'show whether a service works')
    .description(
      'Show on one screen whether a service works, what needs attention, and what to do. Exits with 0 if it is healthy, with 1 if something needs attention, and with 2 if requests are not decided by their counters or the service does not answer.',
    )
    .option('--watch', 'show it again every two seconds', false)
    .action((flags: ServiceFlags & { readonly watch: boolean }) =>
      repeat(flags.watch, surroundings, async (output) => {
        try {
          const status = await callApi(flags, { operation: 'GET /api/v1/status' });
          show(flags, status, renderStatus, output);
          exitWith(exitCodes[status.health]);
        } catch (error) {
          if (!(error instanceof CommandFailed)) throw error;
          fail(error.message);
          exitWith(exitCodes.failing);
        }
      }),
    );
}

/** Renders the status as text: findings first, then the facts. */
export function renderStatus(status: Status, paint: Paint): string {
  const { health, findings, version, startedAt, atMs } = status;
  const own = status.instances.find(({ isThis }) => isThis);
  const colour = health === 'healthy' ? paint.good : paint.bad;
  return [
    `${colour(health.toUpperCase())}  ${own?.name ?? ''}, version ${version}, started ${agoText(startedAt, atMs)}`,
    ...findings.flatMap(({ level, problem, advice }) => [
      `  ${paint.bad(level.padEnd(8))}  ${problem}`,
      `            ${paint.dim(advice)}`,
    ]),
    '',
    ...facts(status).map(([name, text]) => `${paint.strong(name.padEnd(10))}  ${text}`),
    '',
    ...instanceTable(status, paint),
  ].join('\n');
}

function facts({ lastMinute, store, rules, overrides, candidate, memory, background, ...more }: Status) {
  const { passed, refused, undecided, degraded } = lastMinute;
  const { atMs, workers } = more;
  return [
    [
      'requests',
      `${count(passed)} passed, ${count(refused)} refused, ${count(degraded)} decided without counters, ${count(undecided)} undecided in the last minute`,
    ],
    ['store', storeText(store)],
    ['rules', rulesText(rules, atMs)],
    ['overrides', `${overrides.count}${overrides.nextEnd === undefined ? '' : `, the next ends ${overrides.nextEnd}`}`],
    ['candidate', candidateText(candidate, atMs)],
    ['background', backgroundText(background)],
    ['workers', `${workers.expected}, ${counted(workers.restarts, 'restart')}`],
    ...memory.map((one, at) => [at === 0 ? 'memory' : '', memoryText(one)]),
  ] as const;
}

function storeText({ description, isUp, latencyMs, failures, openCircuits }: Status['store']): string {
  const state = isUp === undefined ? '' : isUp ? ', up' : ', DOWN';
  const latency = latencyMs === undefined || isUp === false ? '' : `, ${latencyMs} ms`;
  const open = openCircuits.length === 0 ? '' : `, not called: ${openCircuits.join(', ')}`;
  return `${description}${state}${latency}, ${counted(failures, 'failed request')} since the start${open}`;
}

function rulesText({ source, count: rules, hash, loadedAt, pending }: Status['rules'], atMs: number): string {
  if (hash === undefined || loadedAt === undefined) return `none yet, from ${source}`;
  const newer = pending === null ? '' : pending === 'invalid' ? '; newer ones are invalid' : '; newer ones unread';
  return `${counted(rules, 'rule')} from ${source}, hash ${hash}, loaded ${agoText(loadedAt, atMs)}${newer}`;
}

function candidateText({ state, hash, loadedAt }: Status['candidate'], atMs: number): string {
  if (state === 'wrong') return 'invalid, not tried: see weir candidate';
  return loadedAt === undefined ? state : `hash ${hash}, tried since ${agoText(loadedAt, atMs)}`;
}

function backgroundText(all: Status['background']): string {
  const names = (isFailing: boolean): string =>
    all.flatMap(({ name, since }) => ((since !== undefined) === isFailing ? name : [])).join(', ');
  const [working, failing] = [names(false), names(true)];
  return [working && `${working} working`, failing && `${failing} FAILING`].filter(Boolean).join('; ') || 'none';
}

const MEBIBYTE = 2 ** 20;

const mebibytes = (bytes: number): string => `${(bytes / MEBIBYTE).toFixed(1)} MiB`;

function memoryText({ kind, owner, bytes, maxBytes, counters }: Status['memory'][number]): string {
  const name = { all: owner, process: `  ${owner}`, use: `  of which ${owner}` }[kind];
  const of = maxBytes === undefined ? '' : ` of at most ${mebibytes(maxBytes)}`;
  return `${name}: ${mebibytes(bytes)}${of}${counters === undefined ? '' : ` for ${counted(counters, 'counter')}`}`;
}

function instanceTable({ instances, instancesNote, atMs }: Status, paint: Paint): readonly string[] {
  const [head = '', ...rows] = table([
    ['INSTANCE', 'VERSION', 'RULES', 'STARTED', 'DECISIONS/S', 'REFUSED/S'],
    ...instances.map(({ name, version, rules = '-', startedAtMs, decisionsPerSecond, refusedPerSecond }) => [
      ...[name, version, rules, `${duration(atMs - startedAtMs)} ago`],
      ...[String(Math.round(decisionsPerSecond)), String(Math.round(refusedPerSecond))],
    ]),
  ]);
  return [paint.dim(head), ...rows, ...(instancesNote === undefined ? [] : [paint.dim(instancesNote)])];
}

const agoText = (time: string, nowMs: number): string => `${duration(nowMs - (parseTime(time) ?? nowMs))} ago`;
