import type { Command } from 'commander';
import type { ReplaySurroundings } from '../cli/commands/admin.ts';
import { addAdviseCommand } from './advise/command.ts';
import { addCandidateCommands } from './candidate/command.ts';
import { addEnvoyCommands } from './envoy/envoy-command.ts';
import { addGuardCommands } from './guard/command.ts';
import type { Parts } from './parts.ts';
import { addQuotasCommand } from './quotas/command.ts';
import { addRecordCommand } from './record/command.ts';
import { addReplayCommand } from './replay/command.ts';
import { addSimulateCommand } from './simulate/command.ts';
import { addSitesCommand } from './sites/command.ts';
import { addUsageCommands } from './usage/command.ts';

/** Functions that add commands to `weir`. */
export const commands: Parts<(program: Command, surroundings: ReplaySurroundings) => void> = {
  candidate: addCandidateCommands,
  record: addRecordCommand,
  quotas: addQuotasCommand,
  sites: addSitesCommand,
  replay: addReplayCommand,
  advise: addAdviseCommand,
  envoy: addEnvoyCommands,
  usage: addUsageCommands,
  guard: addGuardCommands,
  simulate: addSimulateCommand,
};
