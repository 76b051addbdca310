import { Command, Option } from 'commander';
import { nearest } from '../base/nearest.ts';
import { commands } from '../parts/commands.ts';
import { groupCommands, styleTexts } from './commands/help.ts';
import { version } from './process/process.ts';
import type { Surroundings } from './surroundings.ts';

/** The command line. Each command loads its own modules, so that `weir check` does not wait for Redis clients and servers. */
export function createProgram(surroundings: Surroundings): Command {
  const program = new Command('weir')
    .description("Rate limit decisions over Envoy's Rate Limit Service v3.")
    .version(version);
  styleTexts(program);
  addServeCommand(program, surroundings);
  for (const add of Object.values(commands)) add(program, surroundings);
  program
    .command('version')
    .summary('print the version of this program')
    .description('Print the version of this program; weir status prints those of all instances of a service.')
    .option('--json', 'print it as JSON', false)
    .action(({ json }: { readonly json: boolean }) => surroundings.print(json ? JSON.stringify({ version }) : version));
  groupCommands(program);
  return program;
}

/** Flags of `weir serve` that set environment variables, and take precedence over them. */
const serveFlags: readonly (readonly [flags: string, variable: string, meaning: string])[] = [
  ['--grpc-port <port>', 'GRPC_PORT', 'port of the gRPC server (8081)'],
  ['--port <port>', 'PORT', 'port of the HTTP server (8080)'],
  ['--debug-port <port>', 'DEBUG_PORT', 'port of the debug server (6070)'],
  ['--redis <url>', 'REDIS_URL', 'keep counters in this Redis instead of in memory'],
  ['--workers <n>', 'WORKERS', 'number of worker processes; auto: one per processor'],
  ['--log-level <level>', 'LOG_LEVEL', 'trace, debug, info, warn (the default), error or fatal'],
  ['--log-format <format>', 'LOG_FORMAT', 'text or json'],
];

function addServeCommand(program: Command, { env, serve: serveService }: Surroundings): void {
  const serve = program
    .command('serve', { isDefault: true })
    .summary('answer requests (the default command)')
    .description(
      'Answer requests until SIGTERM, SIGINT or SIGHUP. Settings come from environment variables; flags override them.',
    )
    .option('--rules <path>', 'rule file, or directory of rule files (RULES_PATH)')
    .allowExcessArguments()
    .action(({ rules, ...flags }: ServeOptions, command: Command) => {
      refuseOperands(command, program);
      return serveService({ ...env, ...toVariables(flags) }, rules);
    });
  for (const [flags, variable, meaning] of serveFlags) serve.option(flags, `${meaning} (${variable})`);
}

type ServeOptions = Readonly<Record<string, string | undefined>>;

/** The variables that the given flags of `weir serve` set. */
function toVariables(flags: ServeOptions): Readonly<Record<string, string>> {
  const set = serveFlags.flatMap(([written, variable]): (readonly [string, string])[] => {
    const value = flags[new Option(written).attributeName()];
    return value === undefined ? [] : [[variable, value]];
  });
  return Object.fromEntries(set);
}

/** `weir` without a command serves, so that a mistyped command arrives here. */
function refuseOperands(command: Command, program: Command): void {
  const [operand] = command.args;
  if (operand === undefined) return;
  if (program.args.includes('serve')) return command.error(`error: serve takes no argument, got '${operand}'`);
  const meant = nearest(
    operand,
    program.commands.map((known) => known.name()),
  );
  const hint = meant === undefined ? '' : `; did you mean '${meant}'?`;
  command.error(`error: unknown command '${operand}'${hint}`);
}
