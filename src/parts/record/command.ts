import type { Command } from 'commander';
import { rfc3339 } from '../../base/times.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { command, span } from '../lab/commands/admin.ts';
import { CommandFailed, printAnswer } from '../lab/commands/client.ts';

interface RecordFlags {
  /** Milliseconds. */
  readonly for?: number;
  readonly stop: boolean;
  readonly reason?: string;
}

/** Adds the command that starts and ends a recording. */
export function addRecordCommand(program: Command, surroundings: Surroundings): void {
  const record = command(program, 'record', 'record the requests of a service')
    .description('Record the requests of a service with RECORD_TO; without options, print whether it is recording.')
    .option('--for <time>', 'how long: 30s, 15m, 2h, 7d', span)
    .option('--stop', 'stop recording', false)
    .option('--reason <text>', 'reason, for the audit log; required with --for and --stop');
  printAnswer(record, surroundings, {
    call({ for: forMs, stop, reason }: RecordFlags) {
      if (forMs !== undefined && stop) throw new CommandFailed('--for and --stop cannot be used together');
      if (forMs === undefined && !stop) return { operation: 'GET /api/v1/recording' };
      if (reason === undefined) throw new CommandFailed('--for and --stop require --reason, for the audit log');
      const until = rfc3339(forMs === undefined ? 0 : surroundings.clock() + forMs);
      return { operation: 'PUT /api/v1/recording', body: { until, reason } };
    },
    render: describe,
  });
}

function describe({ recording, until, failing }: Answers['GET /api/v1/recording']): string {
  if (!recording) return 'nothing is recorded';
  const recorded = until === null ? 'requests are recorded' : `requests are recorded until ${until}`;
  return failing === undefined ? recorded : `${recorded}; failing ${failing}`;
}
