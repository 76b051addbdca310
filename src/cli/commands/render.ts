import { printable } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';
import type { ShownOverride } from '../../edge/http/shapes.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import { spareTexts } from '../../engine/decide/would-refuse.ts';
import { formatLine } from '../../engine/rules/read/problem.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { describeChange } from '../../operate/answers/audit-text.ts';
import type { CounterState } from '../../operate/answers/counters.ts';
import type { ExplainedDecision } from '../../operate/answers/explain.ts';
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
  if (rules.length === 0) return `no hits${topTexts[by]} in the last minute`;
  return rules
    .map(({ rule, total, keys, ...sampled }) => {
      const width = Math.max(...keys.map(({ hits }) => String(hits).length), 0);
      const rows = keys.map(({ descriptor, hits, atMostTooHighBy, atMostTooLowBy }) => {
        const bounds = boundsText(paint, atMostTooHighBy, atMostTooLowBy);
        return `  ${String(hits).padStart(width)}  ${descriptor}${bounds}`;
      });
      const note = estimateNote(sampled);
      return [`${paint.strong(rule)}  ${counted(total, 'hit')}${topTexts[by]} in the last minute${note}`, ...rows].join(
        '\n',
      );
    })
    .join('\n\n');
}

/** What happened to the hits of a list. */
const topTexts = {
  hits: '',
  refusals: ' refused',
  refused_requests: ' refused',
  shadowed: ' let pass by shadow or quota mode',
} as const;

/** An override that applies to a descriptor. */
export const overrideText = ({ effect, until, by, reason }: ShownOverride): string =>
  `override: ${effect} until ${until}, set by ${by}: ${reason}`;

/** `600 used, 400 left`, or of a budget `1.50 USD used, 8.50 USD left`. */
export const usedAndLeft = (state: Pick<CounterState, 'used' | 'remaining' | 'currency' | 'blockedMs'>): string =>
  `${showCount(state, state.used)} used, ${showCount(state, state.remaining)} left${blockText(state)}`;

/** `, blocked for 10 min`, if a block applies to the counter. */
export const blockText = ({ blockedMs }: Pick<CounterState, 'blockedMs'>): string =>
  blockedMs === undefined ? '' : `, blocked for ${duration(blockedMs)}`;

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
function changeText({ change, ...line }: Pick<AuditLine, 'change' | 'what' | 'before' | 'after'>): string {
  const { domain, descriptor, granted, states } = describeChange(line);
  return `${[change, domain, descriptor, granted].filter((name) => name !== undefined).join(' ')}: ${states}`;
}

/** A line for each limit that would have refused: `would refuse: demo.user: 5 per minute (shadow_mode)`. */
export const renderSpared = (wouldRefuse: ExplainedDecision['wouldRefuse'] = []): readonly string[] =>
  wouldRefuse.map(
    ({ rule, name, limit, reason }) =>
      `would refuse: ${rule}: ${name === undefined ? '' : `${name}, `}${limit} (${spareTexts[reason]})`,
  );

/** `envoy-1: quota 40/s of 100/s, demand 55/s, used 40/s`. */
export function renderQuota({ proxy, assigned, share, rate, demand, used }: ProxyQuota): string {
  const parts = [
    `${assignedText[assigned]}${share === undefined ? '' : ` ${perSecond(share)}`}${rate === undefined ? '' : ` of ${perSecond(rate)}`}`,
    demand === undefined ? 'demand not known yet' : `demand ${perSecond(demand)}, used ${perSecond(used ?? 0)}`,
  ];
  return `${proxy ?? '(no name)'}: ${parts.join(', ')}`;
}

const assignedText = {
  share: 'quota',
  expired: 'expired quota',
  none: 'no quota sent yet',
  allow: 'everything is allowed',
  deny: 'everything is denied',
} as const;

const perSecond = (rate: number): string => `${Number(rate.toPrecision(3))}/s`;
