import type { ShownOverride } from '../../edge/http/shapes.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import { spareTexts } from '../../engine/decide/would-refuse.ts';
import { formatLine } from '../../engine/rules/read/problem.ts';
import type { CounterState } from './answers/counters.ts';
import type { ExplainedDecision } from './answers/explain.ts';
import type { ProxyQuota } from './answers/quotas.ts';
import { duration } from './commands/paint.ts';

/** ` (rules.yaml:12)`, or nothing for a rule without a file. */
export const placeText = ({ file, line }: { readonly file?: string; readonly line?: number }): string =>
  file === undefined ? '' : ` (${formatLine({ file, line })})`;

/** An override that applies to a descriptor. */
export const overrideText = ({ effect, until, by, reason }: ShownOverride): string =>
  `override: ${effect} until ${until}, set by ${by}: ${reason}`;

/** `600 used, 400 left`, or of a budget `1.50 USD used, 8.50 USD left`. */
export const usedAndLeft = (state: Pick<CounterState, 'used' | 'remaining' | 'currency' | 'blockedMs'>): string =>
  `${showCount(state, state.used)} used, ${showCount(state, state.remaining)} left${blockText(state)}`;

/** `, blocked for 10 min`, if a block applies to the counter. */
export const blockText = ({ blockedMs }: Pick<CounterState, 'blockedMs'>): string =>
  blockedMs === undefined ? '' : `, blocked for ${duration(blockedMs)}`;

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
