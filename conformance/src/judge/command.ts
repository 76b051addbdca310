import { createWriteStream, readFileSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { FAULTS, FaultyProxy } from './faulty-proxy.ts';
import { type Head, History, type Line, readHistory } from './history.ts';
import { judgeHistory } from './judge.ts';
import { algorithms, type Declaration, readDeclaration } from './limits.ts';
import { record } from './record.ts';
import { asReport } from './report.ts';

export const usage = `Usage: rls-conformance judge --limits FILE (--target HOST:PORT,... | --history FILE) [options]

Calls a service that implements Envoy's Rate Limit Service v3, records every call and its answer, and judges whether the
limits that are declared explain all answers. The rules must be in force before. Exits with 1 if an answer contradicts
what is declared.

  --limits FILE        JSON: what the service is said to do; see conformance/judge.md
  --target ADDRESS     gRPC, without TLS; several instances separated by commas
  --history FILE       judges a recorded history instead of calling a service
  --seconds N          how long it is called; default: 60
  --rate N             calls a second; default: 500
  --clients N          connections; default: 16
  --faults             a proxy between delays bytes, cuts connections and loses answers
  --seed N             of keys, hits and pauses; default: 1
  --record FILE        also writes the history
  --help               prints this text

Algorithms:
${Object.entries(algorithms)
  .map(([name, about]) => `  ${name.padEnd(23)} ${about}`)
  .join('\n')}
`;

/** @returns  the exit code */
export async function judgeCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      limits: { type: 'string' },
      target: { type: 'string' },
      history: { type: 'string' },
      seconds: { type: 'string', default: '60' },
      rate: { type: 'string', default: '500' },
      clients: { type: 'string', default: '16' },
      faults: { type: 'boolean', default: false },
      seed: { type: 'string', default: '1' },
      record: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    return 0;
  }
  const { limits: file, target, history: recorded } = values;
  if (!file || (target === undefined) === (recorded === undefined))
    throw new Error('--limits FILE and either --target HOST:PORT or --history FILE are required; see judge --help');
  const declaration = readDeclaration(readFileSync(file, 'utf8'));
  const history =
    recorded === undefined
      ? await recordFrom((target ?? '').split(','), declaration, values)
      : await readHistory(recorded);
  const sentences = judgeHistory(history, declaration);
  process.stdout.write(asReport(sentences));
  return sentences.some(({ wrongCounters }) => wrongCounters > 0) ? 1 : 0;
}

interface Options {
  readonly seconds: string;
  readonly rate: string;
  readonly clients: string;
  readonly seed: string;
  readonly faults: boolean;
  readonly record?: string | undefined;
}

async function recordFrom(targets: readonly string[], { limits }: Declaration, options: Options): Promise<History> {
  const proxies = options.faults ? await Promise.all(targets.map((one) => FaultyProxy.open(one, FAULTS))) : [];
  const load = {
    targets: options.faults ? proxies.map(({ target }) => target) : targets,
    seconds: numberOf('seconds', options.seconds),
    rate: numberOf('rate', options.rate),
    clients: numberOf('clients', options.clients),
    seed: numberOf('seed', options.seed),
    run: `judge-${Date.now().toString(36)}`,
  };
  const lines: Line[] = [];
  const epochMs = await record(limits, load, (line) => lines.push(line)).finally(() => {
    for (const proxy of proxies) proxy.close();
  });
  if (options.record !== undefined) await writeHistory(options.record, epochMs, lines);
  const history = new History(epochMs);
  for (const line of lines) history.add(line);
  return history;
}

async function writeHistory(path: string, epochMs: number, lines: readonly Line[]): Promise<void> {
  const file = createWriteStream(path);
  file.write(`${JSON.stringify({ history: 1, epoch_ms: epochMs } satisfies Head)}\n`);
  for (const line of lines) file.write(`${JSON.stringify(line)}\n`);
  file.end();
  await finished(file);
}

function numberOf(name: string, text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new Error(`--${name} must be a whole number above 0, got '${text}'`);
}
