import { counted } from '../../base/texts.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import type { CounterState, SharedChild } from '../lab/answers/counters.ts';
import type { ChangedCounters, DescriptorCounters, ListedCounters } from '../lab/answers/listed-counters.ts';
import { shownEntries } from '../lab/commands/for-terminal.ts';
import { duration, type Paint } from '../lab/commands/paint.ts';
import { blockText, overrideText, usedAndLeft } from '../lab/texts.ts';

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
function childText({ key, value, used, borrowed, lends, reserve, own, idle, slots, window }: SharedChild): string {
  const reserved = reserve > 0 ? `, ${borrowed} borrowed, lends ${lends} of ${reserve} reserved` : '';
  const use = slots ? `${used} ${used === 1 ? 'slot' : 'slots'} held` : `${used} used in this ${window ?? 'second'}`;
  return `${key}=${value}${own ? ' (own)' : ''}: ${idle ? 'idle' : use}${reserved}`;
}

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
