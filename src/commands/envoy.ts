import { type Command, Option } from 'commander';
import { type Kind, kinds } from '../envoy/kinds.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { Surroundings } from './admin.ts';
import { CommandFailed, guarded } from './client.ts';
import { paintFor } from './paint.ts';

/** Adds the commands about Envoy's configuration. */
export function addEnvoyCommands(program: Command, surroundings: Surroundings): void {
  const { print, fail } = surroundings;
  program
    .command('envoy')
    .summary("print Envoy's configuration for rules")
    .description('Print a configuration that has a proxy send the descriptors that rule files expect.')
    .argument('<path>', 'rule file or directory')
    .option('--domain <domain>', 'whose rules, where there are several')
    .addOption(new Option('--for <kind>', 'what is configured').choices(kinds).default('envoy'))
    .option('--target <host:port>', 'gRPC address of Weir', 'localhost:8081')
    .action(
      guarded(fail, async (path: string, options: { domain?: string; for: Kind; target: string }) => {
        const { envoyConfiguration } = await import('../envoy/configuration.ts');
        const rules = await rulesAt(path);
        const more = { ...endpointOf(options.target), kind: options.for, timeoutMs: timeoutFor(rules) };
        print(envoyConfiguration(rules, domainOf(rules, options.domain), more).trimEnd());
      }),
    )
    .command('rlqs')
    .summary('print the configuration of its rate limit quota filter')
    .description('Print an Envoy that limits by itself, with shares of the limits of rule files: RLQS=true.')
    .argument('<path>', 'rule file or directory')
    .option('--domain <domain>', 'whose rules, where there are several')
    .option('--target <host:port>', 'gRPC address of Weir', 'localhost:8081')
    .option('--proxy <name>', 'name of the proxy, which no other one has')
    .action(
      guarded(fail, async (path: string, _: object, command: Command) => {
        const { quotaConfiguration } = await import('../envoy/quota-configuration.ts');
        const options: { domain?: string; target: string; proxy?: string } = command.optsWithGlobals(); // the parent has both, too
        const rules = await rulesAt(path);
        const more = { ...endpointOf(options.target), proxy: options.proxy };
        print(quotaConfiguration(rules, domainOf(rules, options.domain), more).trimEnd());
      }),
    );
  addDoctor(program, surroundings);
}

function addDoctor(program: Command, { print, fail, isTerminal, env }: Surroundings): void {
  program
    .command('doctor')
    .summary('examine a running Envoy')
    .description(
      'Read the configuration of a running Envoy, and say which of its descriptors meet no rule, and what else keeps limits from working. Exits with 1 where something is wrong.',
    )
    .requiredOption('--envoy <url>', 'its admin interface: http://localhost:9901')
    .requiredOption('--rules <path>', 'rule file or directory')
    .action(
      guarded(fail, async ({ envoy, rules: path }: { envoy: string; rules: string }) => {
        const { examine } = await import('../envoy/doctor.ts');
        const { readSettings } = await import('../settings.ts');
        const rules = await rulesAt(path);
        const [configDump, clusters] = await Promise.all(
          ['/config_dump?include_eds', '/clusters?format=json'].map((page) => readJson(new URL(page, envoy))),
        );
        const paint = paintFor(isTerminal, env.NO_COLOR);
        const findings = examine(
          { configDump, clusters },
          { rules, storeTimeoutMs: (await readSettings(env)).decisions.storeTimeoutMs },
        );
        for (const { isWrong, text } of findings)
          print(`${isWrong ? paint.bad('wrong') : paint.good('right')}  ${text}`);
        const count = findings.filter(({ isWrong }) => isWrong).length;
        if (count > 0) fail(`${count} wrong`);
      }),
    );
}

function domainOf(rules: RuleTree, given: string | undefined): string {
  const domains = [...rules.domains.keys()];
  const domain = given ?? (domains.length === 1 ? domains[0] : undefined);
  if (domain !== undefined && rules.domains.has(domain)) return domain;
  throw new CommandFailed(`--domain must be one of ${domains.join(', ')}`);
}

function endpointOf(target: string): { readonly host: string; readonly port: number } {
  const [, host = '', port = ''] = /^(.+):(\d+)$/.exec(target) ?? [];
  if (port === '') throw new CommandFailed(`--target must be host:port, got '${target}'`);
  return { host, port: Number(port) };
}

/** What the store may take, and a request may be held, and a margin. */
function timeoutFor({ rules }: RuleTree): number {
  const delays = rules.flatMap(({ limits }) =>
    limits.flatMap(({ limit }) => ('maxDelayMs' in limit ? [limit.maxDelayMs] : [])),
  );
  return Math.max(0, ...delays) + 250;
}

async function rulesAt(path: string): Promise<RuleTree> {
  const { loadMergedRulesAt } = await import('./load-rules.ts');
  return loadMergedRulesAt(path);
}

const TIMEOUT_MS = 10_000;

async function readJson(url: URL): Promise<unknown> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    return await response.json();
  } catch (error) {
    throw new CommandFailed(`${url}: ${error instanceof Error ? error.message : error}`);
  }
}
