import { writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { parseArgs } from 'node:util';
import { parseCount, parseNumber } from '../options.ts';
import { type Checkout, type ComparedRow, checkoutAt, compareShape, conclude, LAUNCHES } from './against.ts';
import { type Generator, startGenerator } from './generator/generator.ts';
import { withoutEach, withoutViews } from './levers.ts';
import { type MeasureOptions, measureShape, type Row } from './measure.ts';
import { findProgram } from './peers/peer.ts';
import { peers } from './peers/peers.ts';
import { comparisonsToMarkdown, toMarkdown } from './report.ts';
import { type Shape, shapes, viewShapes, workerShapes } from './shapes.ts';
import { measureSpread } from './spread.ts';
import {
  countingFloor,
  nodeFloor,
  weirAsOneWorker,
  weirOn,
  weirWithCandidate,
  weirWithConsole,
  weirWithWorkers,
} from './subjects.ts';

const ownTransports = 'h2,grpc-js';

/** Defaults of --seconds, --rounds and --transports, and the length of the warm-up. */
const defaults = {
  sideBySide: { seconds: '3', rounds: '3', transports: ownTransports, warmUpMs: 2_000 },
  sideBySideQuick: { seconds: '1', rounds: '3', transports: ownTransports, warmUpMs: 2_000 },
  against: { seconds: '1', rounds: '36', transports: 'h2', warmUpMs: 2_000 },
  againstQuick: { seconds: '0.5', rounds: '24', transports: 'h2', warmUpMs: 1_000 },
  // each launch spans several windows of ten seconds, since the sampling ratio of views follows the previous window
  views: { seconds: '3', rounds: '24', transports: 'h2', warmUpMs: 5_000 },
  viewsQuick: { seconds: '1.5', rounds: '24', transports: 'h2', warmUpMs: 5_000 },
} as const;

export const usage = `Usage: npm run bench -- [options]

Measures the cost of a decision, side by side with other services: those that npm run proof -- peers has built, or whose programs the
environment names (REFERENCE_BIN, envoyproxy/ratelimit; LIMITADOR_BIN, limitador-server).

  --against DIR      compares this build with another one instead, and prints for each row whether this build is slower;
                     DIR is a built checkout of Weir: a folder with package.json and dist/
  --seconds N        how long calls are counted in one round (3; with --against 1)
  --rounds N         rounds; every result is a median over them (3; with --against 36, with --views 24; best a multiple of 6)
  --quick            shorter rounds (1 s; with --against 24 rounds of 0.5 s; with --views 1.5 s)
  --transports LIST  values of GRPC_TRANSPORT, separated by commas (${ownTransports}; with --against h2)
  --console          Weir alone, with and without an open console
  --candidate        Weir alone, with and without a candidate that is tried
  --views            compares this build with one that records neither top keys nor unmatched descriptors, as --against does
  --workers N        Weir alone, with WORKERS=N and in one process, that one also with as many calls in flight as a worker has;
                     and how evenly connections are spread over workers
  --levers           Weir alone, with each optimization switched off in turn
  --only TEXT        only rows whose names contain TEXT
  --json FILE        also writes all numbers to FILE
  --help             prints this text

Exits with 1 if a call fails or has a wrong answer, or if --against or --views finds a row slower.
`;

const options = {
  against: { type: 'string' },
  seconds: { type: 'string' },
  rounds: { type: 'string' },
  quick: { type: 'boolean', default: false },
  transports: { type: 'string' },
  levers: { type: 'boolean', default: false },
  console: { type: 'boolean', default: false },
  candidate: { type: 'boolean', default: false },
  views: { type: 'boolean', default: false },
  workers: { type: 'string' },
  only: { type: 'string', default: '' },
  json: { type: 'string' },
} as const;

/** The shapes to measure, and the options. */
interface Plan extends Omit<MeasureOptions, 'callsPerSecond'> {
  readonly shapes: readonly Shape[];
  readonly transports: readonly string[];
  readonly levers: boolean;
  readonly console: boolean;
  readonly candidate: boolean;
  /** The number of workers to compare with one process. */
  readonly workers: number | undefined;
  readonly json: string | undefined;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const { against, levers, json } = values;
  const workers = values.workers === undefined ? undefined : parseCount('--workers', values.workers, 256);
  const offered = values.views ? viewShapes : workers === undefined ? shapes : workerShapes(workers);
  const chosen = offered.filter(({ name }) => name.includes(values.only));
  if (chosen.length === 0) throw new Error(`--only must be part of a row's name, got '${values.only}'`);
  const alone = (['levers', 'console', 'candidate', 'views', 'workers'] as const).find((name) => values[name]);
  if (against !== undefined && alone !== undefined) throw new Error(`--${alone} cannot be combined with --against`);
  const kind = values.views ? 'views' : against === undefined ? 'sideBySide' : 'against';
  const fallback = defaults[`${kind}${values.quick ? 'Quick' : ''}`];
  const plan: Plan = {
    shapes: chosen,
    transports: alone !== undefined ? ['h2'] : (values.transports ?? fallback.transports).split(','),
    roundMs: parseNumber('--seconds', values.seconds ?? fallback.seconds, [0.1, 999]) * 1000,
    rounds: parseCount('--rounds', values.rounds ?? fallback.rounds, 999),
    warmUpMs: fallback.warmUpMs * (workers ?? 1), // each worker gets a share of the calls
    levers,
    console: values.console,
    candidate: values.candidate,
    workers,
    json,
    onRound: (round) => console.error(`  round ${round} …`),
  };
  const other = values.views ? withoutViews() : against === undefined ? undefined : checkoutAt(against);
  const generator = startGenerator();
  try {
    await (other === undefined ? measureSideBySide(plan, generator) : compareWith(other, plan, generator));
    const [shape] = plan.shapes;
    if (workers !== undefined && shape) await printSpread(workers, shape, generator);
  } finally {
    generator.stop();
  }
}

async function measureSideBySide(plan: Plan, generator: Generator): Promise<void> {
  const { workers } = plan;
  const own = plan.transports.map((transport) => weirOn(transport));
  if (workers !== undefined) own.push(weirAsOneWorker('h2', workers));
  const isAlone = plan.levers || plan.console || plan.candidate || workers !== undefined;
  const candidates = (isAlone ? [] : peers).map((peer) => ({
    peer,
    program: findProgram(peer, process.env),
  }));
  const present = candidates.flatMap(({ peer, program }) => (program === undefined ? [] : peer.subjectOf(program)));
  const missing = candidates.filter(({ program }) => program === undefined).map(({ peer }) => peer);
  const subjects = [
    ...own,
    ...present,
    ...(isAlone ? [] : [nodeFloor, countingFloor]),
    ...(plan.levers ? withoutEach() : []),
    ...(plan.console ? [weirWithConsole('h2')] : []),
    ...(plan.candidate ? [weirWithCandidate('h2')] : []),
    ...(workers === undefined ? [] : [weirWithWorkers('h2', workers)]),
  ];
  const rows: Row[] = [];
  try {
    for (const shape of plan.shapes) {
      console.error(`${shape.name} …`);
      rows.push(await measureShape(shape, subjects, generator, plan));
    }
  } finally {
    // also prints the rows before a failure
    console.log(
      toMarkdown(
        rows,
        own,
        missing.map((peer) => peer.subjectOf(peer.cached)),
      ),
    );
    for (const { name, variable, cached } of missing) {
      console.log(
        `\n${name} was not measured: ${variable} is not set, and npm run proof -- peers has not made ${cached}.`,
      );
    }
  }
  writeJson(plan, {
    rows: rows.map(({ shape, callsPerSecond, measured }) => ({
      shape,
      callsPerSecond,
      services: [...measured].map(([{ name }, measurement]) => ({ name, ...measurement })),
    })),
    notMeasured: missing.map(({ name }) => name),
  });
}

async function printSpread(workers: number, shape: Shape, generator: Generator): Promise<void> {
  const spread = await measureSpread(weirWithWorkers('h2', workers), shape, generator);
  const { connections, rounds, maxAtRest, maxWhenBusy } = spread;
  console.log(
    `\nOf ${connections} connections opened at once, ${rounds} times, no worker was given more than ${maxAtRest}; ` +
      `no more than ${maxWhenBusy} while the workers were busy.`,
  );
}

/** Sets the exit code to 1 if a row is slower. */
async function compareWith(other: Checkout, plan: Plan, generator: Generator): Promise<void> {
  if (plan.rounds < LAUNCHES)
    throw new Error(`--rounds must be at least ${LAUNCHES} with --against, got ${plan.rounds}`);
  const rows: ComparedRow[] = [];
  try {
    for (const shape of plan.shapes)
      for (const transport of plan.transports) {
        console.error(`${shape.name}, ${transport} …`);
        rows.push(await compareShape(shape, transport, other, generator, plan));
      }
  } finally {
    console.log(`The other build is weir ${other.version} in ${other.folder}.\n`);
    console.log(comparisonsToMarkdown(rows)); // also prints the rows before a failure
  }
  const { text, exitCode } = conclude(rows);
  console.log(`\n${text}`);
  process.exitCode = exitCode;
  writeJson(plan, { other, rows });
}

function writeJson({ json, roundMs, rounds }: Plan, results: object): void {
  if (json === undefined) return;
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length, kernel: release(), node: process.version };
  writeFileSync(json, `${JSON.stringify({ machine, roundMs, rounds, ...results }, null, 2)}\n`);
}
