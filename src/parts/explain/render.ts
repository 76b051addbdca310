import type { Clock } from '../../base/clock.ts';
import type { Candidate, TracedLevel } from '../../edge/listing/shapes.ts';
import { createDynamicMetadata } from '../../edge/rls/metadata.ts';
import { requestFromJson } from '../../edge/wire/json.ts';
import { InvalidJson } from '../../edge/wire/json-reader.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { createOfflineDecider } from '../../engine/decide/offline.ts';
import { readTime, wallClock } from '../../engine/rules/time/zone-time.ts';
import type { CounterState } from '../lab/answers/counters.ts';
import type { ExplainedDescriptor, ExplainedLimit, Explanation } from '../lab/answers/explain.ts';
import { CommandFailed } from '../lab/commands/client.ts';
import { shownEntries } from '../lab/commands/for-terminal.ts';
import { loadMergedRulesAt } from '../lab/commands/load-rules.ts';
import { duration, type Paint } from '../lab/commands/paint.ts';
import { overrideText, placeText, renderQuota, renderSpared, usedAndLeft } from '../lab/texts.ts';
import { explain } from './explain.ts';

/**
 * The clock for an explanation.
 *
 * @param written  default: now
 * @throws CommandFailed if the time is invalid
 */
export function clockAt(written: string | undefined, now: Clock): Clock {
  if (written === undefined) return now;
  const read = readTime(written, wallClock('UTC'));
  if (!read)
    throw new CommandFailed(
      `--at must be a date with a time of day such as 2026-11-27T00:00Z or 2026-11-27T01:00+01:00, got '${written}'`,
    );
  return () => read.atMs;
}

/**
 * Explains a request by rule files alone, with new counters.
 *
 * @param body  a body of `/json`
 * @throws CommandFailed if the rules are invalid
 */
export async function explainOffline(path: string, body: object, clock: Clock): Promise<Explanation> {
  const rules = await loadMergedRulesAt(path);
  let request: WireRequest;
  try {
    request = requestFromJson(Buffer.from(JSON.stringify(body)));
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    return { status: 400, error: error.message, rules: { source: path }, descriptors: [] };
  }
  const nowMs = clock();
  const modes = { shadowMode: false, quotaMode: false, spend: 'each' } as const;
  const decider = { ...createOfflineDecider(() => nowMs, modes, { maxCounters: 1_000 }), rules: () => rules };
  const extras = { headers: () => [], metadata: createDynamicMetadata({ ofRequest: false }) };
  return { ...(await explain(request, { decider, extras })), rules: { source: path } };
}

/** An explanation for a terminal. */
export function renderExplanation(
  { status, error, descriptors = [], decision, rules, workers = [], warning }: Explanation,
  paint: Paint,
): string {
  const code = decision?.code ?? 'no answer';
  const head = status === 200 ? paint.good(code) : paint.bad(code);
  const lines = [`${head}  ${error ?? decision?.why ?? ''}`.trimEnd()];
  if (warning !== undefined) lines.push(paint.bad(`warning: ${warning}`));
  for (const [at, descriptor] of descriptors.entries()) lines.push('', ...renderDescriptor(descriptor, at, paint));
  if (decision && decision.decidedBy.length > 0) {
    lines.push('', waitText(decision.passesInMs));
    if (descriptors.length > 1 || decision.spend !== 'each') lines.push(paint.dim(`spend: ${decision.spend}`));
  }
  const spared = renderSpared(decision?.wouldRefuse);
  if (spared.length > 0) lines.push('', ...spared);
  if (decision && decision.delayMs > 0) lines.push('', `delayed by ${duration(decision.delayMs)}`);
  if (workers.length > 0) {
    lines.push('');
    for (const worker of workers)
      lines.push(
        `${worker.process}: ${worker.status === 429 ? 'OVER_LIMIT' : worker.status === 200 ? 'OK' : 'no answer'} from ${worker.sources.join(', ') || 'the rules'}`,
      );
  }
  if (rules) lines.push('', paint.dim(`rules ${rules.version ? `${rules.version} ` : ''}from ${rules.source}`));
  return lines.join('\n');
}

function waitText(ms: number | null): string {
  if (ms === null) return 'never passes by waiting';
  return ms <= 0 ? 'passes now' : `passes in ${duration(ms)}`;
}

function renderDescriptor(
  { entries, path, stopped, limits, outcome, override, rule, changesAt, quotas = [] }: ExplainedDescriptor,
  at: number,
  paint: Paint,
): readonly string[] {
  const lines = [`${at + 1}. ${paint.strong(shownEntries(entries))}`];
  for (const level of path) lines.push(...renderLevel(level, paint));
  if (override) lines.push(`   ${overrideText(override)}`);
  if (outcome === 'unlimited') lines.push(`   ${rule}: unlimited`);
  if (outcome === 'inactive') lines.push(`   ${rule}: no limit applies at this time`);
  for (const limit of limits) lines.push(...renderLimit(limit, paint));
  if (changesAt !== undefined) lines.push(paint.dim(`   ${rule}: other limits apply from ${changesAt}`));
  for (const quota of quotas) lines.push(paint.dim(`   proxy ${renderQuota(quota)}`));
  if (!stopped) return lines;
  lines.push(`   ${paint.bad('no rule')}: ${stopped.why}`);
  for (const { rule: near, descriptor, ...place } of stopped.nearest)
    lines.push(`   nearest: ${near}${placeText(place)}  ${paint.dim(shownEntries(descriptor))}`);
  return lines;
}

function renderLevel({ level, entry, tried, more }: TracedLevel, paint: Paint): readonly string[] {
  const chosen = tried.find(({ matched }) => matched);
  const failed = tried.filter(({ matched, reason }) => !matched && !(chosen && isFarOff(reason)));
  const others = failed.slice(0, MAX_SHOWN);
  const head = `   level ${level}  ${entry.key}=${entry.value}`;
  const hidden = chosen ? 0 : failed.length - others.length + more;
  return [
    `${head}  ${chosen ? `matches ${nodeName(chosen)}` : paint.bad('matches nothing')}`,
    ...others.map((candidate) => paint.dim(`            not ${nodeName(candidate)}: ${whyNot(candidate)}`)),
    ...(hidden > 0 ? [paint.dim(`            and ${hidden} more`)] : []),
  ];
}
const MAX_SHOWN = 4;

/** Whether a reason is irrelevant when another node matches. */
const isFarOff = (reason: Candidate['reason']): boolean =>
  ['no_such_key', 'value_differs', 'address_outside'].includes(reason ?? '');

const nodeName = ({ key, value, kind }: Candidate): string =>
  value === undefined ? key : kind === 'addresses' ? `${key} in ${value}` : `${key}=${value}`;

function whyNot({ reason, offset, of }: Candidate): string {
  switch (reason) {
    case 'no_such_key':
      return 'another key';
    case 'value_differs':
      return 'another value';
    case 'address_outside':
      return 'not an address in it';
    case 'longer_block_won':
      return 'a longer block contains it';
    case 'wildcard_fails':
      return `the pattern fails at offset ${offset} of the ${of} as sent`;
    case 'earlier_wildcard_won':
      return 'an earlier pattern matches';
    default:
      return 'a more specific one matches';
  }
}

function renderLimit(one: ExplainedLimit, paint: Paint): readonly string[] {
  const { file, line, name, code, before, after, failure } = one;
  const place = file === undefined ? '' : `  ${paint.dim(`${file}${line === undefined ? '' : `:${line}`}`)}`;
  const modes = [
    one.active && `active ${one.active}`,
    one.shadow && 'shadow',
    one.quota && 'quota',
    one.soft && 'soft',
    one.fromRequest && 'limit of the request',
  ].filter(Boolean);
  const head = `   ${one.rule}: ${name ? `${name}, ` : ''}${one.limit}${modes.length > 0 ? ` (${modes.join(', ')})` : ''}${place}`;
  if (one.replacedBy) return [head, `     replaced by ${one.replacedBy.join(', ')}`];
  if (one.inactive) return [paint.dim(`${head}: not now`)];
  const unread = failure === undefined ? [] : [`     ${paint.bad(failure)}`];
  if (!code) return [head, ...unread];
  const shown = code === 'OK' ? paint.good('OK') : paint.bad('OVER_LIMIT');
  const where = one.source === 'backend' ? '' : paint.dim(` from ${one.source}`);
  const wait = code === 'OK' ? '' : `, ${waitText(one.retryAfterMs ?? null)}`;
  return [
    head,
    `     ${shown}${where}  ${one.arithmetic ?? ''}${wait}`,
    ...unread,
    ...(before && after ? [paint.dim(statesText(before, after))] : []),
    paint.dim(`     counter ${one.counter}`),
  ];
}

const resetText = (ms: number): string => (ms <= 0 ? '' : `, resets in ${duration(ms)}`);
const statesText = (before: CounterState, after: CounterState): string =>
  `     before: ${usedAndLeft(before)}; after: ${usedAndLeft(after)}${resetText(after.resetsInMs)}`;
