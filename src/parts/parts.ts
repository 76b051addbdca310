import type { Command } from 'commander';
import type { ReplaySurroundings } from '../cli/commands/admin.ts';
import type { JsonOverload } from '../edge/http/api.ts';
import type { Route } from '../edge/http/server.ts';
import type { RlsService } from '../edge/rls/service.ts';
import type { RuleBook, RuleBookOptions } from '../engine/rules/reload/book.ts';
import type { Logger } from '../operate/observe/log.ts';
import type { Settings } from '../settings/settings.ts';
import { addGuardCommand } from './guard/command.ts';
import { addSimulateCommand } from './simulate/command.ts';
import { discoveredRules } from './xds/source.ts';

// Optional capabilities, each in a folder beside this file. The core imports this file and nothing else of them. A
// capability can be taken out by deleting its folder and the lines here that name it.

/** By the names of folders. */
type Parts<T> = Readonly<Record<string, T>>;

/** Rules that do not come from files. */
interface OtherRules {
  /** For messages. */
  readonly from: string;
  open(loading: Omit<RuleBookOptions, 'pollIntervalMs'>): Promise<RuleBook>;
}

/** Functions that add commands to `weir`. */
export const commands: Parts<(program: Command, surroundings: ReplaySurroundings) => void> = {
  guard: addGuardCommand,
  simulate: addSimulateCommand,
};

/** Functions that find other sources of rules in the settings. */
export const ruleSources: Parts<(rules: Settings['rules'], log: Logger) => OtherRules | undefined> = {
  xds: discoveredRules,
};

type OpenRoute = (path: string, service: RlsService, overload: JsonOverload) => Promise<readonly [string, Route]>;

/** Functions that load pages for callers, by the setting that asks for them. */
export const routes: Partial<Record<keyof Settings['http'], () => Promise<OpenRoute>>> = {
  authz: async () => (await import('./authz/open.ts')).openAuthz,
};
