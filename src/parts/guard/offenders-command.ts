import { type Command, Option } from 'commander';
import { command, count, type Surroundings } from '../../cli/commands/admin.ts';
import { printAnswer } from '../../cli/commands/client.ts';
import type { Paint } from '../../cli/commands/paint.ts';
import type { OffenderList } from '../../operate/answers/views.ts';

/** Adds the command that lists offenders. */
export function addOffendersCommand(program: Command, surroundings: Surroundings): void {
  const offenders = command(program, 'offenders', 'list addresses refused again and again')
    .description('List addresses that were refused many times their limit in the last minute.')
    .addOption(timesOption())
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many', count, 50)
    .option('--follow', 'print it again every two seconds', false);
  printAnswer(offenders, surroundings, {
    call: ({ times, rule, count: most }: { times: number; rule?: string; count: number }) => ({
      operation: 'GET /api/v1/offenders',
      query: { times, rule, count: most },
    }),
    render: renderOffenders,
  });
}

export const timesOption = (): Option =>
  new Option('--times <n>', 'refused at least this many times what the limit admits').argParser(count).default(10);

function renderOffenders({ offenders, more, times }: OffenderList, paint: Paint): string {
  if (offenders.length === 0) return `no address was refused ${times} times its limit in the last minute`;
  const lines = offenders.map(
    ({ address, refused, limit, rule }) =>
      `${paint.strong(address)}  ${refused} refused in the last minute  ${paint.dim(`${rule}: ${limit}`)}`,
  );
  return [...lines, ...(more > 0 ? [`and ${more} more: --count`] : [])].join('\n');
}
