import type { Command } from 'commander';
import { count, type Surroundings, targetOption } from '../../cli/commands/admin.ts';
import { DESCRIPTOR } from '../../edge/listing/descriptor-text.ts';

/** Adds the command that sends a request. */
export function addAskCommand(program: Command, surroundings: Surroundings): void {
  program
    .command('ask')
    .summary('send a request to a running service')
    .description('Send a request to a running service, and print its answer and the rules behind it.')
    .argument('<domain>')
    .argument('<descriptor...>', `each is one descriptor: ${DESCRIPTOR}`)
    .option('--hits <n>', 'hits of the request; 0 peeks and counts nothing', count, 1)
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
    .action((domain: string, descriptors: readonly string[], flags: AskFlags) =>
      askService(domain, descriptors, flags, surroundings),
    );
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

async function askService(
  domain: string,
  descriptors: readonly string[],
  flags: AskFlags,
  { clock, print, fail }: Surroundings,
): Promise<void> {
  const [{ ask, InvalidQuestion }, { InvalidDescriptor }, { CommandFailed, findGrpcAddress }] = await Promise.all([
    import('./run-ask.ts'),
    import('../../edge/listing/descriptor-text.ts'),
    import('../../cli/commands/client.ts'),
  ]);
  const { hits: asked, target, grpc, json, tls, ...files } = flags;
  const isTls = tls || files.ca !== undefined || files.cert !== undefined;
  const debugCa = /^https:/.test(target) ? files.ca : undefined;
  let address = grpc;
  try {
    address ??= await findGrpcAddress({ target, token: undefined, ca: debugCa });
    const question = { domain, descriptors, hits: asked, target: address, json, tls: isTls ? files : undefined };
    print(await ask(question, clock));
  } catch (error) {
    const isKnown = [InvalidQuestion, InvalidDescriptor, CommandFailed].some((known) => error instanceof known);
    const message = error instanceof Error ? error.message : String(error);
    fail(isKnown ? message : `${address}: ${message}`);
  }
}
