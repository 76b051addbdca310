import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { counted } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { parseDescriptor } from '../../edge/listing/descriptor-text.ts';
import { command, onDescriptor, type Reasoned, type ServiceFlags, withReason } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, guarded } from '../lab/commands/client.ts';

/** Time beyond that in which usage is collected. */
const MARGIN_MS = 1_000;

/** Adds the command that deletes what is known of one key. */
export function addForgetCommand(program: Command, { print, fail }: Surroundings): void {
  const added = command(program, 'forget', 'delete counters and usage of one key').description(
    'Reset the counters of a descriptor, and delete its usage and that of descriptors that begin with it. Waits until what was counted before has been deleted, too.',
  );
  withReason(onDescriptor(added)).action(
    guarded(fail, async (domain: string, written: string, { reason, json, ...target }: ServiceFlags & Reasoned) => {
      const body = { domain, descriptor: parseDescriptor(written), reason };
      const counters = await unlessMissing(callApi(target, { operation: 'POST /api/v1/counters/reset', body }));
      const forget = () => callApi(target, { operation: 'POST /api/v1/usage/forget', body });
      const first = await unlessMissing(forget());
      if (!counters && !first) throw new CommandFailed('no rule has this descriptor, and this instance keeps no usage');
      if (first) await sleep(first.againAfterMs + MARGIN_MS);
      const rows = first ? first.rows + (await forget()).rows : undefined;
      const found = { counters: counters?.counters.length ?? 0, ...(rows !== undefined && { usageRows: rows }) };
      if (json) return print(JSON.stringify(found));
      print(`${counted(found.counters, 'counter')} reset`);
      print(rows === undefined ? 'this instance keeps no usage' : `${counted(rows, 'row')} of usage deleted`);
    }),
  );
}

/** Undefined if the service has nothing of this kind. */
async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof CommandFailed && error.status === 404) return undefined;
    throw error;
  }
}
