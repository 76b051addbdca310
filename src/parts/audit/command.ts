import type { Command } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { AuditLine } from '../../operate/answers/service.ts';
import { command, count } from '../lab/commands/admin.ts';
import { printAnswer } from '../lab/commands/client.ts';

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
function changeText({ change, what, before, after }: Pick<AuditLine, 'change' | 'what' | 'before' | 'after'>): string {
  const { domain, descriptor, hits } = what as Readonly<Record<string, unknown>>;
  const names = [change, domain, descriptor, hits === undefined ? undefined : `${hits} hits`];
  return `${names.filter((name) => name !== undefined).join(' ')}: ${stateText(before)} → ${stateText(after)}`;
}

/** The state before or after a change; each kind of change has its own fields. */
function stateText(state: unknown): string {
  if (Array.isArray(state)) return state.map(stateText).join(', ');
  const { effect, until, used, recording, rules, hash } = (state ?? {}) as Readonly<Record<string, unknown>>;
  if (effect !== undefined) return `${effect} until ${until}`;
  if (used !== undefined) return `${used} used`;
  if (recording !== undefined) return recording ? `recording until ${until ?? 'it is stopped'}` : 'no recording';
  if (rules !== undefined) return `${rules} rules, hash ${hash}`;
  return hash === undefined ? 'none' : `hash ${hash}`;
}
