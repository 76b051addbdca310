import { printable } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import type { SetOverride, ShownOverride } from '../../edge/http/shapes.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import { spareTexts } from '../../engine/decide/would-refuse.ts';
import { formatLine } from '../../engine/rules/read/problem.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type {
  ChangedCounters,
  CounterState,
  DescriptorCounters,
  ListedCounters,
  SharedChild,
} from '../../operate/answers/counters.ts';
import type { RefusalPage, RefusedDescriptor, SampledRefusal } from '../../operate/answers/explain.ts';
import type { ProxyQuota } from '../../operate/answers/quotas.ts';
import type { AuditLine } from '../../operate/answers/service.ts';
import type { ShownTop } from '../../operate/answers/views.ts';
import { shownEntries } from './for-terminal.ts';
import { duration, type Paint } from './paint.ts';

/** @param domain  the only domain to list */
export function renderUnmatched(
  { requests, total, descriptors, ...sampled }: Answers['GET /api/v1/unmatched'],
  paint: Paint,
  domain?: string,
): string {
  const ofDomain = domain === undefined ? '' : ` of domain '${printable(domain)}'`;
  if (descriptors.length === 0 && requests === 0) return 'no request arrived in the last minute: try weir doctor';
  if (descriptors.length === 0)
    return `no unmatched descriptor${ofDomain} in the last minute, of ${counted(requests, 'request')}`;
  const lines = [
    `${counted(total, 'descriptor')}${ofDomain} of the last minute matched no rule${estimateNote(sampled)}`,
  ];
  for (const { domain, entries, count, error, atMostTooLowBy, why, reason, nearest = [] } of descriptors) {
    const bounds = boundsText(paint, error, atMostTooLowBy);
    lines.push('', `${count} × ${paint.strong(`${domain} ${shownEntries(entries)}`)}${bounds}`);
    lines.push(`    ${why ?? reason ?? 'it would match a rule now'}`);
    for (const { rule, descriptor, ...place } of nearest)
      lines.push(
        paint.dim(`    nearest: ${rule}${placeText(place)}${descriptor ? `  ${shownEntries(descriptor)}` : ''}`),
      );
  }
  return lines.join('\n');
}

/** ` (rules.yaml:12)`, or nothing for a rule without a file. */
export const placeText = ({ file, line }: { readonly file?: string; readonly line?: number }): string =>
  file === undefined ? '' : ` (${formatLine({ file, line })})`;

const estimateNote = ({ countedOneIn, confidence }: Pick<ShownTop, 'countedOneIn' | 'confidence'>): string =>
  countedOneIn === 1
    ? ''
    : `, estimated: one in ${countedOneIn} was counted; each bound holds with a probability of ${confidence * 100} %`;

function boundsText(paint: Paint, atMostTooHighBy: number, atMostTooLowBy = 0): string {
  const high = atMostTooHighBy > 0 ? [`${atMostTooHighBy} too high`] : [];
  const low = atMostTooLowBy > 0 ? [`${atMostTooLowBy} too low`] : [];
  const both = [...high, ...low];
  return both.length === 0 ? '' : paint.dim(`  at most ${both.join(', ')}`);
}

export function renderTop({ by, rules }: Answers['GET /api/v1/top'], paint: Paint): string {
  if (rules.length === 0) return `no ${by} in the last minute`;
  return rules
    .map(({ rule, total, keys, ...sampled }) => {
      const width = Math.max(...keys.map(({ hits }) => String(hits).length), 0);
      const rows = keys.map(({ descriptor, hits, atMostTooHighBy, atMostTooLowBy }) => {
        const bounds = boundsText(paint, atMostTooHighBy, atMostTooLowBy);
        return `  ${String(hits).padStart(width)}  ${descriptor}${bounds}`;
      });
      const note = estimateNote(sampled);
      return [`${paint.strong(rule)}  ${counted(total, by.slice(0, -1))} in the last minute${note}`, ...rows].join(
        '\n',
      );
    })
    .join('\n\n');
}

/** Renders the counters of a descriptor, also with their states before a change, or a page of all counters. */
export function renderCounters(found: DescriptorCounters | ChangedCounters | ListedCounters, paint: Paint): string {
  if (!('domain' in found)) return renderPage(found);
  const { domain, entries, override, counters } = found;
  const rows = counters.map(({ rule, limit, name, remaining, resetsInMs, children = [], ...own }) => {
    const before = 'before' in own ? own.before : undefined;
    const was = before ? paint.dim(`  before: ${usedAndLeft(before)}`) : '';
    const reset = resetsInMs > 0 ? `, resets in ${duration(resetsInMs)}` : '';
    const head = `  ${rule}: ${name ? `${name}, ` : ''}${limit}`;
    const state = `    ${usedText(own)}, ${showCount(own, remaining)} left${reset}${blockText(own)}${was}`;
    const adapted = own.adapted ? [`    limit of ${own.adapted.limit} now: ${own.adapted.why}`] : [];
    return [head, state, ...adapted, ...children.map((one) => `    ${childText(one)}`)].join('\n');
  });
  const overrides = override ? [`  ${overrideText(override)}`] : [];
  return [paint.strong(`${domain} ${shownEntries(entries)}`), ...overrides, ...rows].join('\n');
}

/** `tenant=a (own): 27 used in this second, 7 borrowed, lends 0 of 20 reserved`. */
function childText({ key, value, used, borrowed, lends, reserve, own, idle, slots }: SharedChild): string {
  const reserved = reserve > 0 ? `, ${borrowed} borrowed, lends ${lends} of ${reserve} reserved` : '';
  const use = slots ? `${used} ${used === 1 ? 'slot' : 'slots'} held` : `${used} used in this second`;
  return `${key}=${value}${own ? ' (own)' : ''}: ${idle ? 'idle' : use}${reserved}`;
}

/** An override that applies to a descriptor. */
export const overrideText = ({ effect, until, by, reason }: ShownOverride): string =>
  `override: ${effect} until ${until}, set by ${by}: ${reason}`;

/** `600 used, 400 left`, or of a budget `1.50 USD used, 8.50 USD left`. */
export const usedAndLeft = (state: Pick<CounterState, 'used' | 'remaining' | 'currency' | 'blockedMs'>): string =>
  `${showCount(state, state.used)} used, ${showCount(state, state.remaining)} left${blockText(state)}`;

const blockText = ({ blockedMs }: Pick<CounterState, 'blockedMs'>): string =>
  blockedMs === undefined ? '' : `, blocked for ${duration(blockedMs)}`;

/** `600 used`, or `600 used, 500 of it on hold for 2 requests`. */
function usedText(state: Pick<CounterState, 'used' | 'onHold' | 'open' | 'currency'>): string {
  const { used, onHold = 0, open = 0 } = state;
  if (onHold === 0) return `${showCount(state, used)} used`;
  return `${showCount(state, used)} used, ${showCount(state, onHold)} of it on hold for ${counted(open, 'request')}`;
}

function renderPage({ counters, next }: ListedCounters): string {
  const rows = counters.map(
    ({ domain, entries, limit, remaining, ...own }) =>
      `${domain} ${shownEntries(entries)}  ${limit}: ${usedText(own)}, ${showCount(own, remaining)} left${blockText(own)}`,
  );
  return [
    ...(rows.length > 0 ? rows : ['no counters on this page']),
    ...(next === undefined ? [] : [`more: --after ${next}`]),
  ].join('\n');
}

export function renderAudit({ changes }: Answers['GET /api/v1/audit']): string {
  if (changes.length === 0) return 'no changes so far';
  return changes
    .map(({ at, who, reason, failed, ...line }) => {
      const ending = failed === undefined ? '' : `  FAILED: ${failed}`;
      return `${at}  ${who}  ${changeText(line)}  reason: ${reason}${ending}`;
    })
    .join('\n');
}

/** `reset demo user=alice: 5 used → 0 used`, with the descriptor as other commands take it. */
function changeText({ change, what, before, after }: Pick<AuditLine, 'change' | 'what' | 'before' | 'after'>): string {
  const { domain, descriptor, hits } = what as Readonly<Record<string, unknown>>;
  const names = [change, domain, descriptor, hits === undefined ? undefined : `${hits} hits`];
  return `${names.filter((name) => name !== undefined).join(' ')}: ${stateText(before)} → ${stateText(after)}`;
}

/** The state before or after a change; each kind of change has its own fields. */
function stateText(state: unknown): string {
  if (Array.isArray(state)) return state.map(stateText).join(', ');
  const { effect, until, used, recording, rules, hash } = (state ?? {}) as Readonly<Record<string, unknown>>;
  if (effect !== undefined) return `${effect} until ${until}`;
  if (used !== undefined) return `${used} used`;
  if (recording !== undefined) return recording ? `recording until ${until ?? 'it is stopped'}` : 'no recording';
  if (rules !== undefined) return `${rules} rules, hash ${hash}`;
  return hash === undefined ? 'none' : `hash ${hash}`;
}

export const renderOverride = ({ domain, descriptor, effect, until, by, reason, warning }: SetOverride): string =>
  `${domain} ${descriptor}  ${effect} until ${until}  by ${by}: ${reason}${warning === undefined ? '' : `\n  warning: ${warning}`}`;

export const renderRemoved = (removed: SetOverride): string => `removed: ${renderOverride(removed)}`;

export const renderOverrides = ({ overrides }: Answers['GET /api/v1/overrides']): string =>
  overrides.length === 0 ? 'no overrides' : overrides.map((one) => renderOverride(one)).join('\n');

/** The modes for which an exceeded limit may not refuse, such as ` (shadow, soft)`. */
function modesText({ shadow, quota, soft }: Pick<RefusedDescriptor, 'shadow' | 'quota' | 'soft'>): string {
  const modes = [shadow && 'shadow', quota && 'quota', soft && 'soft'].filter(Boolean);
  return modes.length === 0 ? '' : ` (${modes.join(', ')})`;
}

/** A line for each limit that would have refused: `would refuse: demo.user: 5 per minute (shadow_mode)`. */
export const renderSpared = (wouldRefuse: SampledRefusal['wouldRefuse'] = []): readonly string[] =>
  wouldRefuse.map(
    ({ rule, name, limit, reason }) =>
      `would refuse: ${rule}: ${name === undefined ? '' : `${name}, `}${limit} (${spareTexts[reason]})`,
  );

/** Lists the oldest first, like a log. */
export function renderRefusals(sent: RefusalPage, paint: Paint): string {
  const isEmpty = sent.refusals.length === 0 && sent.lost === 0;
  return [...(isEmpty ? ['no matching refusals'] : []), renderNewRefusals(sent, paint)].filter(Boolean).join('\n');
}

const waitText = (ms: number | null): string => (ms === null ? 'never passes' : `passes in ${duration(ms)}`);

/** Renders the refusals since the last page, and notes about missing ones. */
export function renderNewRefusals({ refusals, dropped, more, lost }: RefusalPage, paint: Paint): string {
  const notes = [
    ...(more > 0 ? [`${more} more: --count`] : []),
    ...(lost > 0 ? [`${lost} more were replaced before they could be read: raise EXPLAIN_SAMPLE`] : []),
    ...(dropped > 0 ? [`${dropped} more were not kept: there were more than 100 in a second`] : []),
  ].map((note) => paint.dim(note));
  const lines = refusals.toReversed().flatMap(({ atMs, domain, requestId, passesInMs, descriptors, wouldRefuse }) => {
    const isRefused = passesInMs !== 0;
    const hasOneWait = isRefused && descriptors.length === 1;
    return [
      `${rfc3339(atMs)}  ${paint.strong(domain)}${requestId === undefined ? '' : `  request ${requestId}`}`,
      ...descriptors.map(({ entries, outcome, rule, limit, code, arithmetic, source, ...modes }) => {
        const wait = code === 'OVER_LIMIT' && hasOneWait ? `, ${waitText(passesInMs)}` : '';
        const from = source === undefined || source === 'backend' ? '' : ` from ${source}`;
        const result = code === undefined ? outcome : `${code}${from}  ${arithmetic}${wait}`;
        const limited = rule === undefined ? '' : `${rule}${limit ? `: ${limit}${modesText(modes)}` : ''}`;
        return `  ${[shownEntries(entries), limited, result].filter((text) => text !== '').join('  ')}`;
      }),
      ...renderSpared(wouldRefuse).map((line) => `  ${line}`),
      ...(isRefused && !hasOneWait ? [`  ${waitText(passesInMs)}`] : []),
    ];
  });
  return [...lines, ...notes].join('\n');
}

/** `envoy-1: share 40/s of 100/s, demand 55/s, used 40/s`. */
export function renderQuota({ proxy, assigned, share, rate, demand, used }: ProxyQuota): string {
  const parts = [
    `${assignedText[assigned]}${share === undefined ? '' : ` ${perSecond(share)}`}${rate === undefined ? '' : ` of ${perSecond(rate)}`}`,
    demand === undefined ? 'demand not known yet' : `demand ${perSecond(demand)}, used ${perSecond(used ?? 0)}`,
  ];
  return `${proxy ?? '(no name)'}: ${parts.join(', ')}`;
}

const assignedText = {
  share: 'share',
  expired: 'expired share',
  none: 'no share sent yet',
  allow: 'everything is allowed',
  deny: 'everything is denied',
} as const;

const perSecond = (rate: number): string => `${Number(rate.toPrecision(3))}/s`;
