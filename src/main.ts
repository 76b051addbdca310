#!/usr/bin/env node
import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { ask, InvalidDescriptor } from './ask.ts';
import { type CheckOptions, check } from './check.ts';
import { MAX_UINT32 } from './rls/wire.ts';
import { CannotStart } from './serve/cannot-start.ts';
import { serveAsWorker } from './serve/workers/worker.ts';
import { serve } from './serve.ts';
import { InvalidSettings, readSettings } from './settings.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const program = new Command('weir')
  .description("Rate-limit decisions over Envoy's Rate Limit Service v3.")
  .version(version)
  .showHelpAfterError('(see --help)');

program
  .command('serve', { isDefault: true })
  .description(
    'answer requests until SIGTERM, SIGINT or SIGHUP (what weir does without a command); settings come from the environment',
  )
  .option('--rules <path>', 'rule file, or directory of rule files, instead of RULES_PATH')
  .action(runService);

program
  .command('check')
  .description(
    'say whether rule files are right, and do what they say: every problem with its file, line and path; exit 1 if one is an error',
  )
  .argument('<path...>', 'rule files, or directories of rule files; what they hold must go together')
  .option('--merge-domains', 'files of the same domain are put together instead of refused', false)
  .option('--strict', 'warnings count as errors', false)
  .action(checkRules);

program
  .command('ask')
  .description('send one request to a running service and print its answer')
  .argument('<domain>')
  .argument('<descriptor...>', 'key=value[,key=value…], one a descriptor')
  .option('--hits <n>', 'hits that the request counts; 0 looks and counts nothing', hits, 1)
  .option('--target <host:port>', 'gRPC address of the service', 'localhost:8081')
  .option('--json', 'print the answer as JSON', false)
  .action(askService);

await program.parseAsync();

async function runService({ rules }: { rules?: string }): Promise<void> {
  try {
    const read = readSettings(process.env);
    const settings = rules === undefined ? read : { ...read, rules: { path: rules } };
    if (cluster.worker) return onSignal(await serveAsWorker(settings, Date.now, cluster.worker));
    const service = await serve(settings, Date.now, version);
    onSignal(service.close);
    console.log(service.banner);
    service.failed.then(({ message }) => {
      fail(message);
      return service.close();
    });
  } catch (error) {
    if (!(error instanceof InvalidSettings || error instanceof CannotStart)) throw error;
    fail(error.message);
  }
}

function onSignal(close: () => Promise<void>): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => void close());
}

async function checkRules(paths: readonly string[], options: CheckOptions): Promise<void> {
  const { isRight, problems, summary } = await check(paths, options);
  for (const problem of problems) console.log(problem);
  if (isRight) console.log(summary);
  else fail(summary);
}

async function askService(
  domain: string,
  descriptors: readonly string[],
  options: { hits: number; target: string; json: boolean },
): Promise<void> {
  try {
    console.log(await ask({ domain, descriptors, ...options }, Date.now));
  } catch (error) {
    if (error instanceof InvalidDescriptor) fail(error.message);
    else fail(`${options.target}: ${error instanceof Error ? error.message : error}`);
  }
}

function hits(written: string): number {
  const value = /^\d+$/.test(written) ? Number(written) : Number.NaN;
  if (value <= MAX_UINT32) return value;
  throw new InvalidArgumentError(`wanted a whole number from 0 to ${MAX_UINT32}.`);
}

function fail(message: string): void {
  console.error(`weir: ${message}`);
  process.exitCode = 1;
}
