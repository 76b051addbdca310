import type { Command } from 'commander';
import { count, counted, table } from '../../base/texts.ts';
import { parseTime } from '../../base/times.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { command, type ServiceFlags } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, repeat, show } from '../lab/commands/client.ts';
import { duration, type Paint } from '../lab/commands/paint.ts';
import type { Status } from './answers.ts';

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
    ...(findings.length === 0 ? [`  ${status.situation.text}`] : []),
    ...findings.flatMap(({ level, problem, advice }, at) => [
      `  ${paint.bad(level.padEnd(8))}  ${problem}`,
      ...(advice === findings[at + 1]?.advice ? [] : [`            ${paint.dim(advice)}`]), // once for all that it helps
    ]),
    '',
    ...facts(status).map(([name, text]) => `${paint.strong(name.padEnd(10))}  ${text}`),
    '',
    ...instanceTable(status, paint),
  ].join('\n');
}

function facts({ lastMinute, undecided, store, rules, overrides, candidate, memory, background, ...more }: Status) {
  const { offered, passed, refused, undecided: lost, degraded } = lastMinute;
  const reasons = Object.entries(undecided).filter(([, requests]) => requests > 0);
  const lostText = reasons.map(([reason, requests]) => `${reason} ${count(requests)}`).join(', ');
  const { atMs, workers, incidents } = more;
  return [
    [
      'requests',
      `${count(offered)} in the last minute: ${count(passed)} passed, ${count(refused)} refused, ${count(degraded)} decided without counters, ${count(lost)} undecided`,
    ],
    ...(lostText === '' ? [] : [['', `undecided since the start: ${lostText}`]]),
    ...incidents.slice(0, MAX_INCIDENTS).map((one, at) => [at === 0 ? 'incidents' : '', incidentText(one)]),
    ['store', storeText(store)],
    ...(store.lastDay ? [['', latencyText(store)]] : []),
    ['rules', rulesText(rules, atMs)],
    ['overrides', `${overrides.count}${overrides.nextEnd === undefined ? '' : `, the next ends ${overrides.nextEnd}`}`],
    ['candidate', candidateText(candidate, atMs)],
    ['background', backgroundText(background)],
    ['workers', `${workers.expected}, ${counted(workers.restarts, 'restart')}`],
    ...memory.map((one, at) => [at === 0 ? 'memory' : '', memoryText(one)]),
  ] as const;
}

/** Incidents that fit one screen, the newest first. */
const MAX_INCIDENTS = 5;

const incidentText = ({ since, until = 'now', text }: Status['incidents'][number]): string =>
  `${since === until ? since : `${since} to ${until}`}: ${text}`;

function latencyText({ lastMinute, lastDay }: Status['store']): string {
  const of = (name: string, latency: typeof lastMinute) =>
    latency ? [`${latency.p50Ms} ms and ${latency.p99Ms} ms of the last ${name}`] : [];
  const known = [...of('minute', lastMinute), ...of('day', lastDay)];
  return known.length === 0 ? '' : `p50 and p99: ${known.join(', ')}`;
}

function storeText({ description, isUp, failures, openCircuits }: Status['store']): string {
  const state = isUp === undefined ? '' : isUp ? ', up' : ', DOWN';
  const open = openCircuits.length === 0 ? '' : `, not called: ${openCircuits.join(', ')}`;
  return `${description}${state}, ${counted(failures, 'failed request')} since the start${open}`;
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
