import type { Command } from 'commander';

/** All commands by purpose, as `weir --help` groups them; a group is placed where its first command is added. */
const groups: Readonly<Record<string, readonly string[]>> = {
  'Run:': ['serve'],
  'Change rules safely:': ['check', 'test', 'diff', 'candidate', 'record', 'replay', 'advise', 'simulate'],
  'Ask why:': ['ask', 'explain', 'unmatched', 'top', 'refusals'],
  'Operate:': ['get', 'reset', 'grant', 'override', 'sites', 'audit'],
  'Envoy:': ['envoy', 'doctor', 'quotas'],
};

const order = Object.values(groups).flat();

/** Assigns each command to its group in the help. */
export function groupCommands({ commands }: Command): void {
  for (const command of commands) {
    const [heading] = Object.entries(groups).find(([, names]) => names.includes(command.name())) ?? [];
    if (heading !== undefined) command.helpGroup(heading);
  }
}

/** Sorts commands in the order of the groups. */
export const inGroups = (commands: readonly Command[]): Command[] =>
  commands.toSorted((one, other) => order.indexOf(one.name()) - order.indexOf(other.name()));
