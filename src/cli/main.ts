import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { nearest } from '../base/nearest.ts';
import { DESCRIPTOR } from '../engine/rules/match/descriptor-text.ts';
import { startControl } from '../serve/supervisor/fork-control.ts';
import { addAdminCommands, type Surroundings, targetOption } from './commands/admin.ts';
import { addAdviseCommand } from './commands/advise.ts';
import { addCandidateCommand } from './commands/candidate.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { addDiffCommand } from './commands/diff.ts';
import { addDoctor } from './commands/doctor.ts';
import { addEnvoyCommands } from './commands/envoy.ts';
import { addForgetCommand } from './commands/forget.ts';
import { groupCommands, styleTexts } from './commands/help.ts';
import { addOffenderCommands } from './commands/offenders.ts';
import { addQuotasCommand } from './commands/quotas.ts';
import { addRecordCommand } from './commands/record.ts';
import { addReplayCommands } from './commands/replay.ts';
import { addSimulateCommand } from './commands/simulate.ts';
import { addSitesCommand } from './commands/sites.ts';
import { addStatusCommand } from './commands/status.ts';
import type { ReplaySurroundings } from './commands/traffic-input.ts';
import { addUsageCommand } from './commands/usage.ts';
import { endStartOnSignals, fail, version } from './process/process.ts';

// Each command loads its own modules, so that `weir check` does not wait for Redis clients and servers.

const program = new Command('weir')
  .description("Rate limit decisions over Envoy's Rate Limit Service v3.")
  .version(version);
styleTexts(program);

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

const serve = program
  .command('serve', { isDefault: true })
  .summary('answer requests (the default command)')
  .description(
    'Answer requests until SIGTERM, SIGINT or SIGHUP. Settings come from environment variables; flags override them.',
  )
  .option('--rules <path>', 'rule file, or directory of rule files (RULES_PATH)')
  .allowExcessArguments()
  .action(serveWithFlags);
for (const [flags, variable, meaning] of serveFlags) serve.option(flags, `${meaning} (${variable})`);

program
  .command('check')
  .summary('check rule files and settings')
  .description(
    'Find problems in rule files and settings, with the same checks as the service. Exits with 1 if there is an error.',
  )
  .argument(
    '[path...]',
    'rule files or directories; - reads standard input; none: the rules that the environment names',
  )
  .addOption(
    new Option('--backend <name>', 'store of the counters, instead of the one that the environment names').choices([
      'memory',
      'redis',
      'memcached',
    ]),
  )
  .addOption(
    new Option('--format <name>', 'output format of problems')
      .choices(['text', 'json', 'github', 'sarif'])
      .default('text'),
  )
  .option(
    '--route-timeout <time>',
    "longest timeout of the proxy's routes, which the ttl of in_flight must exceed: 15s",
  )
  .option('--merge-domains', 'merge files with the same domain (MERGE_DOMAIN_CONFIG)', false)
  .option('--strict', 'also exit with 1 for warnings', false)
  .option(
    '--overlay <path>',
    'overlay file, or directory of them, instead of RULES_OVERLAY; may be given several times',
    (path: string, before: readonly string[]) => [...before, path],
    [],
  )
  .action(checkRules);

program
  .command('test')
  .summary('run tests of rule files')
  .description('Run tests of rule files: which rule a request matches, and its answer. Exits with 1 if a test fails.')
  .argument('<file...>', 'YAML files of tests')
  .option('--rules <path>', 'rule file or directory, instead of the one that the tests name')
  .action(testRules);

program
  .command('ask')
  .summary('send a request to a running service')
  .description('Send a request to a running service, and print its answer and the rules behind it.')
  .argument('<domain>')
  .argument('<descriptor...>', `each is one descriptor: ${DESCRIPTOR}`)
  .option('--hits <n>', 'hits of the request; 0 peeks and counts nothing', hits, 1)
  .addOption(targetOption())
  .option(
    '--grpc <address>',
    'host:port of a gRPC server, or the path of its unix socket, instead of the one that the debug port names',
  )
  .option('--tls', 'use TLS for gRPC', false)
  .option('--ca <file>', "CA file for the server's certificate, instead of the system CAs; implies --tls")
  .option('--cert <file>', 'file with the client certificate; implies --tls')
  .option('--key <file>', 'file with the key of the client certificate')
  .option('--server-name <name>', "name in the server's certificate, if it is not the host of its address")
  .option('--json', "print the service's answer as JSON", false)
  .action(askService);

const surroundings: Surroundings = {
  clock: Date.now,
  env: process.env,
  isTerminal: process.stdout.isTTY,
  print(text) {
    endWithReader();
    console.log(text);
  },
  fail,
  exitWith(code) {
    process.exitCode = code;
  },
};
addStatusCommand(program, surroundings);
addAdminCommands(program, surroundings);
addEnvoyCommands(program, surroundings);
addDoctor(program, surroundings);
addDiffCommand(program, surroundings);
addRecordCommand(program, surroundings);
addCandidateCommand(program, surroundings);
addQuotasCommand(program, surroundings);
addSitesCommand(program, surroundings);
addUsageCommand(program, surroundings);
addForgetCommand(program, surroundings);
addOffenderCommands(program, surroundings);
const replaySurroundings: ReplaySurroundings = {
  ...surroundings,
  input: process.stdin,
  write: writeOutput,
  showProgress: process.stderr.isTTY ? (text) => void process.stderr.write(text) : undefined,
};
addReplayCommands(program, replaySurroundings);
addSimulateCommand(program, replaySurroundings);
addAdviseCommand(program, replaySurroundings);
program
  .command('version')
  .summary('print the version of this program')
  .description('Print the version of this program; weir status prints those of all instances of a service.')
  .action(() => console.log(version));
addCompletionCommand(program);
groupCommands(program);

await program.parseAsync();

/** Ends the process without an error if the reader of its output has gone: `weir get | head`. */
function endWithReader(): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', () => process.exit());
}

/** Resolves when more can be written. */
function writeOutput(text: string): Promise<void> {
  endWithReader();
  return new Promise((resolve) => void process.stdout.write(text, () => resolve()));
}

type ServeOptions = Readonly<Record<string, string | undefined>>;

async function serveWithFlags({ rules, ...flags }: ServeOptions, command: Command): Promise<void> {
  refuseOperands(command);
  const onOpen = endStartOnSignals();
  const env = { ...process.env, ...toVariables(flags) };
  const control = cluster.isWorker ? undefined : startControl({ version, env, rules });
  const { runService } = await import('./commands/serve.ts');
  await runService(env, rules, { clock: Date.now, control, onOpen });
}

/** The variables that the given flags of `weir serve` set. */
function toVariables(flags: ServeOptions): Readonly<Record<string, string>> {
  const set = serveFlags.flatMap(([written, variable]): (readonly [string, string])[] => {
    const value = flags[new Option(written).attributeName()];
    return value === undefined ? [] : [[variable, value]];
  });
  return Object.fromEntries(set);
}

/** `weir` without a command serves, so that a mistyped command arrives here. */
function refuseOperands(command: Command): void {
  const [operand] = command.args;
  if (operand === undefined) return;
  if (process.argv.slice(2).includes('serve')) return command.error(`error: serve takes no argument, got '${operand}'`);
  const meant = nearest(
    operand,
    program.commands.map((known) => known.name()),
  );
  const hint = meant === undefined ? '' : `; did you mean '${meant}'?`;
  command.error(`error: unknown command '${operand}'${hint}`);
}

interface CheckFlags {
  readonly backend?: 'memory' | 'redis' | 'memcached';
  readonly format: 'text' | 'json' | 'github' | 'sarif';
  readonly mergeDomains: boolean;
  readonly strict: boolean;
}

async function checkRules(paths: readonly string[], { format, ...options }: CheckFlags): Promise<void> {
  const { check, lineReader } = await import('./check/check.ts');
  const { formats, summarize } = await import('./check/formats.ts');
  const stdin = paths.includes('-') ? readFileSync(0, 'utf8') : undefined;
  const checked = await check(paths, process.env, { ...options, stdin });
  const printed = formats[format](checked, { version, lineOf: lineReader(stdin), cwd: process.cwd() });
  if (printed !== '') console.log(printed);
  if (checked.isValid) return;
  if (format === 'text') fail(summarize(checked));
  else process.exitCode = 1;
}

async function testRules(files: readonly string[], options: { readonly rules?: string }): Promise<void> {
  const [{ runRuleTests }, { InvalidSettings }, { printableLines }] = await Promise.all([
    import('./check/rule-tests.ts'),
    import('../settings/values.ts'),
    import('../base/printable.ts'),
  ]);
  try {
    const { lines, failed } = await runRuleTests(files, options.rules, process.env);
    for (const line of lines) console.log(printableLines(line));
    if (failed > 0) fail(`${failed} of ${lines.length} failed`);
  } catch (error) {
    if (!(error instanceof InvalidSettings)) throw error;
    fail(error.message);
  }
}

interface AskFlags {
  readonly hits: number;
  readonly target: string;
  readonly grpc?: string;
  readonly json: boolean;
  readonly tls: boolean;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly serverName?: string;
}

async function askService(domain: string, descriptors: readonly string[], flags: AskFlags): Promise<void> {
  const [{ ask, InvalidQuestion }, { InvalidDescriptor }, { CommandFailed, findGrpcAddress }] = await Promise.all([
    import('./ask.ts'),
    import('../engine/rules/match/descriptor-text.ts'),
    import('./commands/client.ts'),
  ]);
  const { hits: asked, target, grpc, json, tls, ...files } = flags;
  const isTls = tls || files.ca !== undefined || files.cert !== undefined;
  const debugCa = /^https:/.test(target) ? files.ca : undefined;
  let address = grpc;
  try {
    address ??= await findGrpcAddress({ target, token: undefined, ca: debugCa });
    const question = { domain, descriptors, hits: asked, target: address, json, tls: isTls ? files : undefined };
    console.log(await ask(question, Date.now));
  } catch (error) {
    const isKnown = [InvalidQuestion, InvalidDescriptor, CommandFailed].some((known) => error instanceof known);
    const message = error instanceof Error ? error.message : String(error);
    fail(isKnown ? message : `${address}: ${message}`);
  }
}

function hits(written: string): number {
  const value = /^\d+$/.test(written) ? Number(written) : Number.NaN;
  if (value <= 0xffff_ffff) return value;
  throw new InvalidArgumentError(`expected a whole number from 0 to ${0xffff_ffff}.`);
}
