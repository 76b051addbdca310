import { setTimeout as sleep } from 'node:timers/promises';
import { accepts, type Running, start } from '../../../test/helpers/process.ts';
import { median } from '../../tables/figures.ts';
import { table } from '../../tables/table.ts';
import type { Load } from '../generator/drive.ts';
import { type Generator, startGenerator } from '../generator/generator.ts';
import { bareSite, cannedSite } from './bare-server.ts';
import { type Crowd, startCrowd } from './crowd.ts';
import { firstAnswer } from './first-answer.ts';
import { QUESTION, type Site } from './site.ts';

const CALLS_PER_SECOND = 1_000;
const CALLING_CONNECTIONS = 4;
const ROUND_MS = 1_000;
const WARM_UP_MS = 2_000;
/** Time for the connections of one round to close before the next. */
const PAUSE_MS = 500;

/** The 99th percentile of answer times of another client, which calls at a fixed rate. */
interface Round {
  /** While no connections are opened. */
  readonly quietMs: number;
  /** While connections are opened to a server that does nothing, which shows the effect of the machine alone. */
  readonly besideMs: number;
  /** While as many connections are opened to this service, with a call on each. */
  readonly duringMs: number;
  /** Time from the first connection to the answer on the last. */
  readonly openMs: number;
}

/**
 * Opens connections within a second to each service in turn, while another client calls it; first to a server that
 * decides nothing, which shows the cost of Node and the machine.
 *
 * @returns  a table in Markdown: medians of all rounds
 */
export async function measureArrivals(sites: readonly Site[], connections: number, rounds: number): Promise<string> {
  const bare = await bareSite();
  const beside = await start(bare.command, bare.args, { name: bare.name, env: { ...bare.env } });
  const generator = startGenerator();
  const crowd = startCrowd();
  try {
    await beside.waitFor(() => accepts(bare.grpcPort));
    const lines: string[][] = [];
    for (const site of [await cannedSite(), ...sites]) {
      console.error(`${connections} connections in a second, ${site.name} …`);
      const order = { connections, overMs: ROUND_MS };
      lines.push(formatLine(site, await runRounds(site, bare.grpcPort, { order, rounds, crowd, generator })));
    }
    const head = [
      ...[`${connections} connections in a second`, "others' p99, ms", 'as many elsewhere', 'as many here'],
      ...['÷ without', '÷ elsewhere', 'all open after, ms'],
    ];
    return table(head, 1, lines);
  } finally {
    generator.stop();
    await crowd.kill();
    await beside.stop();
  }
}

interface Means {
  readonly order: { readonly connections: number; readonly overMs: number };
  readonly rounds: number;
  readonly crowd: Crowd;
  readonly generator: Generator;
}

async function runRounds(
  site: Site,
  barePort: number,
  { order, rounds, crowd, generator }: Means,
): Promise<readonly Round[]> {
  const { name, command, args, env, grpcPort: port } = site;
  const service: Running = await start(command, args, { name, env: { ...env } });
  const drive = async (elapsedMs: number): Promise<number> =>
    (await generator.drive(createLoad(port, elapsedMs))).p99Ms;
  const driveWhile = async (to: number, calls: boolean): Promise<readonly [p99Ms: number, openMs: number]> => {
    const both = await Promise.all([drive(ROUND_MS), crowd.open({ ...order, port: to, calls })]);
    await crowd.close();
    await sleep(PAUSE_MS);
    return both;
  };
  try {
    await firstAnswer(port, () => true);
    await drive(WARM_UP_MS);
    const found: Round[] = [];
    for (let round = 0; round <= rounds; round++) {
      const quietMs = await drive(ROUND_MS);
      const [besideMs] = await driveWhile(barePort, false);
      const [duringMs, openMs] = await driveWhile(port, true);
      if (round > 0) found.push({ quietMs, besideMs, duringMs, openMs }); // the first round compiles the code that accepts connections
    }
    return found;
  } finally {
    await service.stop();
  }
}

const createLoad = (port: number, elapsedMs: number): Load => ({
  port,
  connections: CALLING_CONNECTIONS,
  pace: { kind: 'open', callsPerSecond: CALLS_PER_SECOND, end: { elapsedMs } },
  question: QUESTION,
});

function formatLine({ name }: Site, rounds: readonly Round[]): string[] {
  const of = (number: (round: Round) => number): number => median(rounds.map(number));
  return [
    name,
    of(({ quietMs }) => quietMs).toFixed(2),
    of(({ besideMs }) => besideMs).toFixed(2),
    of(({ duringMs }) => duringMs).toFixed(2),
    of(({ quietMs, duringMs }) => duringMs / quietMs).toFixed(1),
    of(({ besideMs, duringMs }) => duringMs / besideMs).toFixed(1),
    of(({ openMs }) => openMs).toFixed(0),
  ];
}
