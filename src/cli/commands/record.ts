import type { Command } from 'commander';
import { rfc3339 } from '../../base/times.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { command, type Surroundings, span } from './admin.ts';
import { CommandFailed, guarded, showAnswer, type Target } from './client.ts';

interface RecordFlags extends Target {
  readonly json: boolean;
  /** Milliseconds. */
  readonly for?: number;
  readonly stop: boolean;
  readonly reason?: string;
}

/** Adds the command that starts and ends a recording. */
export function addRecordCommand(program: Command, { clock, print, fail, ...around }: Surroundings): void {
  command(program, 'record', 'record the requests of a service')
    .description('Record the requests of a service with RECORD_TO; without options, print whether it is recording.')
    .option('--for <time>', 'how long: 30s, 15m, 2h, 7d', span)
    .option('--stop', 'stop recording', false)
    .option('--reason <text>', 'reason, for the audit log; required with --for and --stop')
    .action(
      guarded(fail, async (flags: RecordFlags) => {
        const { for: forMs, stop, reason } = flags;
        if (forMs !== undefined && stop) throw new CommandFailed('--for and --stop cannot be used together');
        const isChange = forMs !== undefined || stop;
        if (isChange && reason === undefined)
          throw new CommandFailed('--for and --stop require --reason, for the audit log');
        const until = rfc3339(stop ? 0 : clock() + (forMs ?? 0));
        const call = isChange
          ? ({ operation: 'PUT /api/v1/recording', body: { until, reason } } as const)
          : ({ operation: 'GET /api/v1/recording' } as const);
        await showAnswer(flags, call, describe, { print, ...around });
      }),
    );
}

function describe({ recording, until }: Answers['GET /api/v1/recording']): string {
  if (!recording) return 'nothing is recorded';
  return until === null ? 'requests are recorded' : `requests are recorded until ${until}`;
}
