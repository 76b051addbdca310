import type { Command } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import { DESCRIPTOR } from '../../edge/listing/descriptor-text.ts';
import { count, targetOption } from '../lab/commands/admin.ts';
import { findGrpcAddress, guarded } from '../lab/commands/client.ts';
import type { AskTls } from './run-ask.ts';

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
    .action(
      guarded(surroundings.fail, (domain: string, descriptors: readonly string[], flags: AskFlags) =>
        askService(domain, descriptors, flags, surroundings),
      ),
    );
}

interface AskFlags extends AskTls {
  readonly hits: number;
  readonly target: string;
  readonly grpc?: string;
  readonly json: boolean;
  readonly tls: boolean;
}

async function askService(
  domain: string,
  descriptors: readonly string[],
  { hits, target, grpc, json, tls, ...files }: AskFlags,
  { clock, print }: Pick<Surroundings, 'clock' | 'print'>,
): Promise<void> {
  const { ask } = await import('./run-ask.ts');
  const isTls = tls || files.ca !== undefined || files.cert !== undefined;
  const debugCa = /^https:/.test(target) ? files.ca : undefined;
  const address = grpc ?? (await findGrpcAddress({ target, token: undefined, ca: debugCa }));
  print(await ask({ domain, descriptors, hits, target: address, json, tls: isTls ? files : undefined }, clock));
}
