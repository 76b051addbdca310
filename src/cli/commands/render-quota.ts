import type { ProxyQuota } from '../../edge/rlqs/quota-report.ts';

/** `envoy-1: share 40/s of 100/s, demand 55/s, used 40/s`. */
export function renderQuota({ proxy, assigned, share, rate, demand, used }: ProxyQuota): string {
  const parts = [
    `${assignedText[assigned]}${share === undefined ? '' : ` ${perSecond(share)}`}${rate === undefined ? '' : ` of ${perSecond(rate)}`}`,
    demand === undefined ? 'demand not known yet' : `demand ${perSecond(demand)}, used ${perSecond(used ?? 0)}`,
  ];
  return `${proxy ?? '(no name)'}: ${parts.join(', ')}`;
}

const assignedText = {
  ...{ share: 'share', expired: 'expired share', none: 'no share sent yet' },
  ...{ allow: 'everything is allowed', deny: 'everything is denied' },
} as const;

const perSecond = (rate: number): string => `${Number(rate.toPrecision(3))}/s`;
