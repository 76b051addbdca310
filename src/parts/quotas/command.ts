import type { Command } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import { DESCRIPTOR } from '../../edge/listing/descriptor-text.ts';
import type { ProxyQuota } from '../lab/answers/quotas.ts';
import { command, count } from '../lab/commands/admin.ts';
import { printAnswer } from '../lab/commands/client.ts';
import { shownEntries } from '../lab/commands/for-terminal.ts';
import type { Paint } from '../lab/commands/paint.ts';
import { renderQuota } from '../lab/texts.ts';
import type { QuotaReport } from './answers.ts';

/** Adds the command that shows the quotas of proxies, and their use. */
export function addQuotasCommand(program: Command, surroundings: Surroundings): void {
  const quotas = command(program, 'quotas', 'list quota and use of proxies (RLQS)')
    .description('List quota, demand and use of proxies (RLQS).')
    .argument('[domain]', 'only of this domain')
    .argument('[descriptor]', `only of this bucket: ${DESCRIPTOR}`)
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many', count, 50);
  printAnswer(quotas, surroundings, {
    call(domain: string | undefined, descriptor: string | undefined, flags: { rule?: string; count: number }) {
      const query = { domain, descriptor, rule: flags.rule, count: flags.count };
      return { operation: 'GET /api/v1/quotas', query };
    },
    render: renderQuotas,
  });
}

export function renderQuotas({ quotas, more }: QuotaReport, paint: Paint): string {
  if (quotas.length === 0) return 'no proxy of this instance has a bucket';
  return [
    ...quotas.flatMap((one) => [bucketHead(one, paint), `  ${renderQuota(one)}`]),
    ...(more > 0 ? [`and ${more} more: --count`] : []),
  ].join('\n');
}

const bucketHead = ({ domain, entries, rule }: ProxyQuota, paint: Paint): string =>
  `${paint.strong(`${domain} ${shownEntries(entries)}`)}  ${paint.dim(rule ?? 'no applicable rule')}`;
