import type { Command } from 'commander';
import { printable } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { command, count } from '../lab/commands/admin.ts';
import { printAnswer } from '../lab/commands/client.ts';
import { shownEntries } from '../lab/commands/for-terminal.ts';
import type { Paint } from '../lab/commands/paint.ts';
import { boundsText, estimateNote } from '../lab/sketches/texts.ts';
import { placeText } from '../lab/texts.ts';

/** Adds the command that lists descriptors which matched no rule. */
export function addUnmatchedCommand(program: Command, surroundings: Surroundings): void {
  const unmatched = command(program, 'unmatched', 'list descriptors that matched no rule')
    .option('--domain <domain>', 'only of this domain')
    .option('--count <n>', 'how many', count, 20);
  printAnswer(unmatched, surroundings, {
    call: ({ domain, count }: { domain?: string; count: number }) => ({
      operation: 'GET /api/v1/unmatched',
      query: { domain, count },
    }),
    render: (sent, paint) => renderUnmatched(sent, paint, unmatched.opts().domain),
  });
}

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
