import type { Command } from 'commander';

/** All commands by what they are for, as the help of `weir` lists them; a group where its first command is added. */
const groups: Readonly<Record<string, readonly string[]>> = {
  'Run:': ['serve'],
  'Change rules safely:': ['check', 'test', 'diff', 'candidate', 'record', 'replay', 'advise', 'simulate'],
  'Ask why:': ['ask', 'explain', 'unmatched', 'top', 'refusals'],
  'Operate:': ['get', 'reset', 'grant', 'override', 'sites', 'audit'],
  'Envoy:': ['envoy', 'doctor', 'quotas'],
};

const order = Object.values(groups).flat();

/** Has the help list each command in its group. */
export function groupCommands({ commands }: Command): void {
  for (const command of commands) {
    const [heading] = Object.entries(groups).find(([, names]) => names.includes(command.name())) ?? [];
    if (heading !== undefined) command.helpGroup(heading);
  }
}

/** In the order of the groups. */
export const inGroups = (commands: readonly Command[]): Command[] =>
  commands.toSorted((one, other) => order.indexOf(one.name()) - order.indexOf(other.name()));
