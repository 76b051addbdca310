import type { Command } from 'commander';
import type { Surroundings } from '../cli/surroundings.ts';
import { addAdviseCommand } from './advise/command.ts';
import { addAskCommand } from './ask/command.ts';
import { addAuditCommand } from './audit/command.ts';
import { addCandidateCommands } from './candidate/command.ts';
import { addCheckCommand } from './check/command.ts';
import { addCompletionCommand } from './completion/command.ts';
import { addCounterCommands } from './counters/command.ts';
import { addEnvoyCommands } from './envoy/envoy-command.ts';
import { addExplainCommand } from './explain/command.ts';
import { addGuardCommands } from './guard/command.ts';
import { addOverrideCommands } from './overrides/command.ts';
import type { Parts } from './parts.ts';
import { addQuotasCommand } from './quotas/command.ts';
import { addRecordCommand } from './record/command.ts';
import { addRefusalsCommand } from './refusals/command.ts';
import { addReplayCommand } from './replay/command.ts';
import { addTestCommand } from './rule-tests/command.ts';
import { addSimulateCommand } from './simulate/command.ts';
import { addSitesCommand } from './sites/command.ts';
import { addStatusCommand } from './status/command.ts';
import { addTopCommand } from './top/command.ts';
import { addUnmatchedCommand } from './unmatched/command.ts';
import { addUsageCommands } from './usage/command.ts';

/** Functions that add commands to `weir`. */
export const commands: Parts<(program: Command, surroundings: Surroundings) => void> = {
  check: addCheckCommand,
  status: addStatusCommand,
  ask: addAskCommand,
  unmatched: addUnmatchedCommand,
  top: addTopCommand,
  explain: addExplainCommand,
  counters: addCounterCommands,
  refusals: addRefusalsCommand,
  overrides: addOverrideCommands,
  'rule-tests': addTestCommand,
  audit: addAuditCommand,
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
  completion: addCompletionCommand,
};
