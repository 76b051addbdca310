import type { Command } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { AuditLine } from '../../operate/answers/service.ts';
import { command, count } from '../lab/commands/admin.ts';
import { printAnswer } from '../lab/commands/client.ts';
import { describeChange } from './audit-text.ts';

/** Adds the command that lists changes. */
export function addAuditCommand(program: Command, surroundings: Surroundings): void {
  const audit = command(program, 'audit', 'list the newest changes of operators').option(
    '--count <n>',
    'how many',
    count,
    20,
  );
  printAnswer(audit, surroundings, {
    call: ({ count }: { count: number }) => ({ operation: 'GET /api/v1/audit', query: { count } }),
    render: renderAudit,
  });
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
function changeText({ change, ...line }: Pick<AuditLine, 'change' | 'what' | 'before' | 'after'>): string {
  const { domain, descriptor, granted, states } = describeChange(line);
  return `${[change, domain, descriptor, granted].filter((name) => name !== undefined).join(' ')}: ${states}`;
}
