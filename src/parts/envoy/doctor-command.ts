import { type Command, Option } from 'commander';
import { printable, printableJson } from '../../base/printable.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { CommandFailed, callApi, guarded, parsedJson, type Target, toUrl } from '../lab/commands/client.ts';
import { paintFor } from '../lab/commands/paint.ts';

/** Adds the command that examines a running Envoy. */
export function addDoctor(program: Command, { print, fail, isTerminal, env }: Surroundings): void {
  program
    .command('doctor')
    .summary('examine a running Envoy')
    .description(
      'Read the configuration of a running Envoy, and report descriptors that match no rule and other mistakes that keep limits from working. Exits with 1 if it finds any.',
    )
    .requiredOption('--envoy <url>', 'its admin interface: http://localhost:9901')
    .requiredOption('--rules <path>', 'rule file or directory')
    .addOption(
      new Option('--target <host:port>', 'debug port of a service whose findings are reported as well').env(
        'WEIR_TARGET',
      ),
    )
    .addOption(new Option('--token <secret>', 'a token of its ADMIN_TOKEN').env('WEIR_TOKEN'))
    .option('--ca <file>', "CA file for the service's certificate, instead of the system CAs; implies https")
    .option('--json', 'print the findings as JSON', false)
    .action(
      guarded(fail, async ({ envoy, rules: path, target, json, ...access }: DoctorFlags) => {
        const { probeAddress } = await import('./clusters.ts');
        const { examine } = await import('./doctor.ts');
        const { STATS_PAGE } = await import('./stats.ts');
        const { loadMergedRulesAt } = await import('../lab/commands/load-rules.ts');
        const rules = await loadMergedRulesAt(path);
        const configDump = await readJson(envoy, '/config_dump?include_eds', 'configs');
        const clusters = await readJson(envoy, '/clusters?format=json', 'cluster_statuses');
        const stats = await readJson(envoy, STATS_PAGE, 'stats');
        const paint = paintFor(isTerminal, env.NO_COLOR);
        const findings = [
          ...(await examine({ configDump, clusters, stats, probe: probeAddress }, rules)),
          ...(target === undefined ? [] : await readFindings({ target, ...access })),
        ];
        const marks = { right: paint.good('right'), wrong: paint.bad('wrong'), check: paint.strong('check') } as const;
        if (json) print(printableJson({ findings }));
        else for (const { verdict, text } of findings) print(`${marks[verdict]}  ${printable(text)}`);
        const count = findings.filter(({ verdict }) => verdict === 'wrong').length;
        if (count > 0) fail(count === 1 ? '1 is wrong' : `${count} are wrong`);
      }),
    );
}

interface DoctorFlags extends Omit<Target, 'target'> {
  readonly envoy: string;
  readonly rules: string;
  readonly target?: string;
  readonly json: boolean;
}

/** What a service has seen of its proxies. @throws CommandFailed */
async function readFindings(service: Target) {
  const { findings } = await callApi(service, { operation: 'GET /api/v1/findings' });
  return findings.map(({ problem, since, configuration, connection, example }) => {
    const from = connection === undefined ? '' : `; connection ${connection}`;
    const shown = example.length === 0 ? '' : `; example ${descriptorText(example)}`;
    return { verdict: 'wrong', text: `${problem}; since ${since}${from}${shown}; check ${configuration}` } as const;
  });
}

const TIMEOUT_MS = 10_000;
/** Maximum characters shown of a response that is not JSON. */
const MAX_SHOWN = 60;

const EXPECTED = 'expected the admin interface of Envoy';

/** Reads a page of the admin interface. @throws CommandFailed */
async function readJson(envoy: string, page: string, field: string): Promise<unknown> {
  const failed = (why: string): CommandFailed => new CommandFailed(`${envoy}: ${why}`);
  const { send } = await import('../lab/commands/send.ts');
  const asked = { method: 'GET', headers: {}, body: undefined, ca: undefined, timeoutMs: TIMEOUT_MS };
  const { status, statusText, text } = await toUrl(envoy, page)
    .then((url) => send(url, asked))
    .catch((error: Error) => Promise.reject(failed(`${error.message}; ${EXPECTED}`)));
  if (status !== 200) throw failed(`${EXPECTED}, got ${status} ${statusText}`);
  const found = parsedJson(text);
  if (found === undefined) throw failed(`${EXPECTED}, got no JSON: ${JSON.stringify(text.slice(0, MAX_SHOWN))}`);
  if (typeof found === 'object' && found !== null && field in found) return found;
  throw failed(`${EXPECTED}, got JSON without ${field}`);
}
