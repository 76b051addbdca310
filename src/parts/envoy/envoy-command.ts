import { type Command, Option } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { CommandFailed, guarded } from '../lab/commands/client.ts';
import type { envoyConfiguration } from './configuration.ts';
import { addDoctor } from './doctor-command.ts';

type Kind = Parameters<typeof envoyConfiguration>[2]['kind'];

/** Default addresses of Weir. In a pod, `localhost` is the proxy, so Istio gets the chart's Service. */
const defaultAddresses: Readonly<Record<Kind, string>> = {
  envoy: 'localhost:8081',
  istio: 'weir.weir.svc.cluster.local:8081',
  'envoy-gateway': 'localhost:8081', // without effect
};

/** The time for the store, besides that for which rules hold requests. */
const STORE_MS = 250;

/** Adds the commands that print Envoy's configuration, and examine a running Envoy. */
export function addEnvoyCommands(program: Command, surroundings: Surroundings): void {
  addPrinting(program, surroundings);
  addDoctor(program, surroundings);
}

function addPrinting(program: Command, { print, fail }: Surroundings): void {
  program
    .command('envoy')
    .summary("print Envoy's configuration for rules")
    .description('Print a configuration that makes a proxy send the descriptors that rule files expect.')
    .argument('<path>', 'rule file or directory')
    .option('--domain <domain>', 'domain of the rules, if there are several')
    .addOption(new Option('--for <kind>', 'what to configure').choices(Object.keys(defaultAddresses)).default('envoy'))
    .option(
      '--grpc <host:port>',
      `gRPC address of Weir (default: ${defaultAddresses.envoy}; for istio ${defaultAddresses.istio})`,
    )
    .action(
      guarded(fail, async (path: string, options: { domain?: string; for: Kind; grpc?: string }) => {
        const { envoyConfiguration } = await import('./configuration.ts');
        const { longestDelayMs } = await import('./shapes.ts');
        const { loadMergedRulesAt } = await import('../lab/commands/load-rules.ts');
        const rules = await loadMergedRulesAt(path);
        const address = options.grpc ?? defaultAddresses[options.for];
        const more = {
          ...parseEndpoint(address),
          kind: options.for,
          timeoutMs: longestDelayMs(rules.rules) + STORE_MS,
        };
        print(envoyConfiguration(rules, chooseDomain(rules, options.domain), more).trimEnd());
      }),
    )
    .command('rlqs')
    .summary("print the configuration of Envoy's rate limit quota filter")
    .description(
      'Print the configuration of an Envoy that enforces its shares of the limits itself; requires RLQS=true.',
    )
    .argument('<path>', 'rule file or directory')
    .option('--domain <domain>', 'domain of the rules, if there are several')
    .option('--grpc <host:port>', `gRPC address of Weir (default: ${defaultAddresses.envoy})`)
    .option('--proxy <name>', 'unique name of the proxy')
    .action(
      guarded(fail, async (path: string, _: object, command: Command) => {
        const { quotaConfiguration } = await import('./quota-configuration.ts');
        const options: { domain?: string; grpc?: string; proxy?: string } = command.optsWithGlobals(); // the parent has both too
        const { loadMergedRulesAt } = await import('../lab/commands/load-rules.ts');
        const rules = await loadMergedRulesAt(path);
        const more = { ...parseEndpoint(options.grpc ?? defaultAddresses.envoy), proxy: options.proxy };
        print(quotaConfiguration(rules, chooseDomain(rules, options.domain), more).trimEnd());
      }),
    );
}

function chooseDomain(rules: RuleTree, given: string | undefined): string {
  const domains = [...rules.domains.keys()];
  const domain = given ?? (domains.length === 1 ? domains[0] : undefined);
  if (domain !== undefined && rules.domains.has(domain)) return domain;
  throw new CommandFailed(`--domain must be one of ${domains.join(', ')}`);
}

function parseEndpoint(address: string): { readonly host: string; readonly port: number } {
  const [, host = '', port = ''] = /^(.+):(\d+)$/.exec(address) ?? [];
  if (port === '') throw new CommandFailed(`--grpc must be host:port, got '${address}'`);
  return { host, port: Number(port) };
}
