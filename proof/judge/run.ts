import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { FAULTS, FaultyProxy } from '../../conformance/src/judge/faulty-proxy.ts';
import { History, type Line } from '../../conformance/src/judge/history.ts';
import { judgeHistory, type Sentence } from '../../conformance/src/judge/judge.ts';
import { record } from '../../conformance/src/judge/record.ts';
import { asReport } from '../../conformance/src/judge/report.ts';
import { referenceProgram } from '../../test/helpers/reference.ts';
import { referencePeer } from '../bench/peers/reference.ts';
import { writePage } from '../tables/page.ts';
import { table } from '../tables/table.ts';
import { type Judged, referenceOnRedis, weirInMemory, weirOnCluster, weirOnRedis, weirWithLeases } from './servers.ts';

export const usage = `Usage: npm run proof -- judge [--seconds N] [--write]

Calls Weir and envoyproxy/ratelimit with rls-conformance judge, without and with faults, and prints what it finds: the
tables of docs/results/judge.md.

  --seconds N  how long each is called; default: 30
  --write      writes the tables into the page
  --help       this text
`;

type FaultKind = 'none' | 'network' | 'crash';

const cases: readonly (readonly [server: string, start: () => Promise<Judged>, faults: readonly FaultKind[]])[] = [
  ['Weir, memory', weirInMemory, ['none', 'network']],
  ['Weir, Redis, two instances', weirOnRedis, ['none', 'network', 'crash']],
  ['Weir, Redis Cluster, two instances', weirOnCluster, ['none', 'crash']],
  ['Weir, Redis, two instances, leases', weirWithLeases, ['none', 'crash']],
  ['envoyproxy/ratelimit, Redis, two instances', referenceOnRedis, ['none', 'network', 'crash']],
];

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { seconds: { type: 'string', default: '30' }, write: { type: 'boolean', default: false } },
  });
  const rows: (string | number)[][] = [];
  for (const [server, start, kinds] of cases)
    for (const faults of kinds) {
      const sentences = await judge(await start(), faults, Number(values.seconds));
      console.error(`${server}, faults: ${faults}\n${asReport(sentences)}`);
      rows.push(...sentences.map((sentence) => rowOf(server, faults, sentence)));
    }
  const version = await referencePeer.versionOf(await referenceProgram());
  const results = `${table(COLUMNS, 3, rows)}\n\nenvoyproxy/ratelimit is ${version}.\n`;
  console.log(results);
  if (values.write) writePage('judge.md', results);
}

const COLUMNS = [
  ...['server', 'faults', 'limit', 'calls', 'passed', 'refused', 'unknown'],
  ...['most in a window', 'counters', 'wrong counters'],
];

async function judge(server: Judged, faults: FaultKind, seconds: number): Promise<readonly Sentence[]> {
  const proxies =
    faults === 'network' ? await Promise.all(server.targets.map((one) => FaultyProxy.open(one, FAULTS))) : [];
  const targets = faults === 'network' ? proxies.map(({ target }) => target) : server.targets;
  const lines: Line[] = [];
  const load = { targets, seconds, rate: 300, clients: 12, run: 'judge', seed: 1 };
  try {
    const recorded = record(server.declaration.limits, load, (line) => lines.push(line));
    if (faults === 'crash') await sleep(seconds * 500).then(() => server.crash());
    const history = new History(await recorded);
    for (const line of lines) history.add(line);
    return judgeHistory(history, server.declaration);
  } finally {
    for (const proxy of proxies) proxy.close();
    await server.stop();
  }
}

function rowOf(server: string, faults: FaultKind, { limit, calls, mostInWindow, counters, wrongCounters }: Sentence) {
  const total = calls.passed + calls.refused + calls.unknown;
  const most = limit.windowMs === 0 ? '' : `${mostInWindow} of ${limit.limit}`;
  const outcomes = [total, calls.passed, calls.refused, calls.unknown];
  return [server, faults, `\`${limit.name}\``, ...outcomes, most, counters, wrongCounters];
}
