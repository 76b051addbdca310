import type { Command } from 'commander';
import type { ProxyQuota, QuotaReport } from '../../edge/rlqs/shapes.ts';
import { DESCRIPTOR } from '../../engine/rules/match/descriptor-text.ts';
import { command, count, type Surroundings } from './admin.ts';
import { guarded, showAnswer, type Target } from './client.ts';
import type { Paint } from './paint.ts';
import { renderQuota } from './render.ts';

interface QuotaFlags extends Target {
  readonly json: boolean;
  readonly domain?: string;
  readonly rule?: string;
  readonly count: number;
}

/** Adds the command that shows the quotas of proxies, and their use. */
export function addQuotasCommand(program: Command, { print, fail, ...around }: Surroundings): void {
  command(program, 'quotas', 'list share and use of proxies (RLQS)')
    .description('List share, demand and use of proxies (RLQS).')
    .argument('[domain]', 'only of this domain')
    .argument('[descriptor]', `only of this bucket: ${DESCRIPTOR}`)
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many', count, 50)
    .action(
      guarded(fail, async (domain: string | undefined, descriptor: string | undefined, flags: QuotaFlags) => {
        const query = { domain, descriptor, rule: flags.rule, count: flags.count };
        await showAnswer(flags, { operation: 'GET /api/v1/quotas', query }, renderQuotas, { print, ...around });
      }),
    );
}

export function renderQuotas({ quotas, more }: QuotaReport, paint: Paint): string {
  if (quotas.length === 0) return 'no proxy of this instance has a bucket';
  return [
    ...quotas.flatMap((one) => [bucketHead(one, paint), `  ${renderQuota(one)}`]),
    ...(more > 0 ? [`and ${more} more: --count`] : []),
  ].join('\n');
}

const bucketHead = ({ domain, entries, rule }: ProxyQuota, paint: Paint): string =>
  `${paint.strong(`${domain} ${entries.map(({ key, value }) => `${key}=${value}`).join(',')}`)}  ${paint.dim(rule ?? 'no applicable rule')}`;
