import type { AuditLine } from '../admin/audit.ts';
import type { CounterState, ShownOverride } from '../admin/explain.ts';
import type { RefusalReport } from '../admin/refusals.ts';
import type { CountBounds } from '../admin/sampling-error.ts';
import { rfc3339 } from '../admin/times.ts';
import type { UnmatchedDescriptor } from '../admin/unmatched.ts';
import { duration, type Paint } from './paint.ts';

type Entries = readonly { readonly key: string; readonly value: string }[];

const textOf = (entries: Entries): string => entries.map(({ key, value }) => `${key}=${value}`).join(',');

/** Descriptors that met no rule, as the API sends them. */
export interface SentUnmatched {
  readonly total: number;
  readonly countedOneIn?: number;
  readonly confidence?: number;
  readonly descriptors: readonly UnmatchedDescriptor[];
}

export function renderUnmatched({ total, descriptors, ...sampled }: SentUnmatched, paint: Paint): string {
  if (descriptors.length === 0) return 'every descriptor of the last minute met a rule';
  const lines = [`${total} descriptors of the last minute met no rule${estimateNote(sampled)}`];
  for (const { domain, entries, count, error, atMostTooLowBy, why, reason, nearest = [] } of descriptors) {
    const bounds = boundsText(paint, error, atMostTooLowBy);
    lines.push('', `${count} × ${paint.strong(`${domain} ${textOf(entries)}`)}${bounds}`);
    lines.push(`    ${why ?? reason ?? 'it would meet a rule now'}`);
    for (const { rule, file, line, descriptor } of nearest) {
      const place = file === undefined ? '' : ` (${file}${line === undefined ? '' : `:${line}`})`;
      lines.push(paint.dim(`    nearest: ${rule}${place}${descriptor ? `  ${textOf(descriptor)}` : ''}`));
    }
  }
  return lines.join('\n');
}

interface Sampled {
  /** Absent: an older service. */
  readonly countedOneIn?: number;
  readonly confidence?: number;
}

const estimateNote = ({ countedOneIn = 1, confidence }: Sampled): string =>
  countedOneIn === 1 ? '' : `, by estimate: one in ${countedOneIn} was counted${ofBounds(confidence)}`;

const ofBounds = (confidence: number | undefined): string =>
  confidence === undefined ? '' : `, and each bound holds with ${confidence * 100} %`;

function boundsText(paint: Paint, atMostTooHighBy: number, atMostTooLowBy = 0): string {
  const high = atMostTooHighBy > 0 ? [`${atMostTooHighBy} too high`] : [];
  const low = atMostTooLowBy > 0 ? [`${atMostTooLowBy} too low`] : [];
  const both = [...high, ...low];
  return both.length === 0 ? '' : paint.dim(`  at most ${both.join(', ')}`);
}

/** The most frequent descriptors of rules, as the API sends them. */
export interface SentTop {
  readonly by: string;
  readonly rules: readonly {
    readonly rule: string;
    readonly total: number;
    readonly countedOneIn?: number;
    readonly confidence?: number;
    readonly keys: readonly (CountBounds & { readonly descriptor: string; readonly hits: number })[];
  }[];
}

export function renderTop({ by, rules }: SentTop, paint: Paint): string {
  if (rules.length === 0) return `no ${by} in the last minute`;
  return rules
    .map(({ rule, total, keys, ...sampled }) => {
      const width = Math.max(...keys.map(({ hits }) => String(hits).length), 0);
      const rows = keys.map(({ descriptor, hits, atMostTooHighBy, atMostTooLowBy }) => {
        const bounds = boundsText(paint, atMostTooHighBy, atMostTooLowBy);
        return `  ${String(hits).padStart(width)}  ${descriptor}${bounds}`;
      });
      const note = estimateNote(sampled);
      return [`${paint.strong(rule)}  ${total} ${by} in the last minute${note}`, ...rows].join('\n');
    })
    .join('\n\n');
}

/** The counters of a descriptor, as the API sends them. */
export interface SentCounters {
  readonly domain: string;
  readonly entries: Entries;
  readonly counters: readonly (CounterState & {
    readonly rule: string;
    readonly limit: string;
    readonly name?: string;
    /** Of a change. */
    readonly before?: CounterState;
  })[];
}

export function renderCounters({ domain, entries, counters }: SentCounters, paint: Paint): string {
  const rows = counters.map(({ rule, limit, name, remaining, resetsInMs, before, ...own }) => {
    const was = before ? paint.dim(`  before: ${before.used} used, ${before.remaining} left`) : '';
    const reset = resetsInMs > 0 ? `, resets in ${duration(resetsInMs)}` : '';
    return `  ${rule}: ${name ? `${name}, ` : ''}${limit}\n    ${usedOf(own)}, ${remaining} left${reset}${was}`;
  });
  return [paint.strong(`${domain} ${textOf(entries)}`), ...rows].join('\n');
}

/** `600 used`, or `600 used, 500 of it on hold for 2 requests`. */
function usedOf({ used, onHold = 0, open = 0 }: Pick<CounterState, 'used' | 'onHold' | 'open'>): string {
  if (onHold === 0) return `${used} used`;
  return `${used} used, ${onHold} of it on hold for ${open} request${open === 1 ? '' : 's'}`;
}

/** A page of all counters, as the API sends it. */
export interface SentPage {
  readonly counters: readonly (CounterState & {
    readonly domain: string;
    readonly entries: Entries;
    readonly limit: string;
  })[];
  readonly next?: string;
}

export function renderPage({ counters, next }: SentPage): string {
  const rows = counters.map(
    ({ domain, entries, limit, remaining, ...own }) =>
      `${domain} ${textOf(entries)}  ${limit}: ${usedOf(own)}, ${remaining} left`,
  );
  return [
    ...(rows.length > 0 ? rows : ['no counters on this page']),
    ...(next === undefined ? [] : [`more: --after ${next}`]),
  ].join('\n');
}

/** The newest changes, as the API sends them. */
export interface SentAudit {
  readonly changes: readonly AuditLine[];
}

export function renderAudit({ changes }: SentAudit): string {
  if (changes.length === 0) return 'no changes so far';
  return changes
    .map(
      ({ at, who, change, what, reason, failed }) =>
        `${at}  ${who}  ${change} ${JSON.stringify(what)}  ${reason}${failed ? `  FAILED: ${failed}` : ''}`,
    )
    .join('\n');
}

/** An override, as the API sends it. */
export interface SentOverride extends ShownOverride {
  readonly domain: string;
  readonly descriptor: string;
}

export const renderOverride = ({ domain, descriptor, effect, until, by, reason }: SentOverride): string =>
  `${domain} ${descriptor}  ${effect} until ${until}  by ${by}: ${reason}`;

/** Refusals, as the API sends them. */
export type SentRefusals = RefusalReport;

/** The oldest first, as a log is read. */
export function renderRefusals({ refusals, dropped }: SentRefusals, paint: Paint): string {
  const notKept = dropped > 0 ? [paint.dim(`${dropped} more were not kept`)] : [];
  if (refusals.length === 0) return ['no such refusal is kept', ...notKept].join('\n');
  const lines = refusals.toReversed().flatMap(({ atMs, domain, requestId, descriptors }) => [
    `${rfc3339(atMs)}  ${paint.strong(domain)}${requestId === undefined ? '' : `  request ${requestId}`}`,
    ...descriptors.map(({ entries, outcome, rule, limit, code, arithmetic, retryAfterMs, source }) => {
      const wait =
        retryAfterMs === undefined
          ? ''
          : retryAfterMs === null
            ? ', never passes'
            : `, passes in ${duration(retryAfterMs)}`;
      const from = source === undefined || source === 'backend' ? '' : ` from ${source}`;
      const result = code === undefined ? outcome : `${code}${from}  ${arithmetic}${wait}`;
      const limited = rule === undefined ? '' : `${rule}${limit ? `: ${limit}` : ''}`;
      return `  ${[textOf(entries), limited, result].filter((text) => text !== '').join('  ')}`;
    }),
  ]);
  return [...lines, ...notKept].join('\n');
}
