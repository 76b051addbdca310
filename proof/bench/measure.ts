import { readUsage, type Usage } from '../processes/process-tree.ts';
import { median } from '../tables/figures.ts';
import { roundOrder } from '../tables/order.ts';
import type { Tally } from './generator/drive.ts';
import type { Generator } from './generator/generator.ts';
import type { Pace } from './generator/pace.ts';
import type { Shape } from './shapes.ts';
import { type Stage, setStage } from './stage.ts';
import type { Subject } from './subjects.ts';

/** The result of one service for one shape. */
export interface Measurement {
  readonly callsPerSecond: number;
  /** CPU time per call of all processes of the service. */
  readonly serviceUs: number;
  /** CPU time per call of Redis; undefined if counters are in memory. */
  readonly redisUs: number | undefined;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Resident memory of the service after the calls. */
  readonly memoryBytes: number;
  /** The fraction of a core that the load generator used: near 1, the generator was the bottleneck. */
  readonly generatorLoad: number;
}

/** The measurements of all services for a shape. */
export interface Row {
  readonly shape: Shape;
  /** The offered rate; undefined for a closed loop. */
  readonly callsPerSecond: number | undefined;
  /** The median over the rounds, for each number. */
  readonly measured: ReadonlyMap<Subject, Measurement>;
  /** The measurements of each round, at the same index for every service. */
  readonly rounds: ReadonlyMap<Subject, readonly Measurement[]>;
}

export interface MeasureOptions {
  /** The measured time of one round. */
  readonly roundMs: number;
  readonly rounds: number;
  /** Rate of an open loop. Default: half the rate of the slowest service in a closed loop. */
  readonly callsPerSecond?: number | undefined;
  /** Warm-up time of each service. Default: two seconds. */
  readonly warmUpMs?: number;
  /** Called before each round of a launch; rounds count from 1. */
  readonly onRound?: ((round: number) => void) | undefined;
}

const WARM_UP_MS = 2_000;
/** The warm-up time before every round, since other services have used the caches meanwhile. */
const REWARM_MS = 300;
const US_PER_MS = 1_000;
const MS_PER_S = 1_000;

/**
 * Measures all services that serve the shape. They run side by side, and are called one at a time, in another order
 * each round, so that other work on the machine affects all of them. A service that fails calls of an even pace does not
 * keep up with it, and is left out of the row.
 *
 * @throws  a call of another pace failed or was answered wrongly
 */
export async function measureShape(
  shape: Shape,
  subjects: readonly Subject[],
  generator: Generator,
  { roundMs, rounds, callsPerSecond: offered, warmUpMs = WARM_UP_MS, onRound }: MeasureOptions,
): Promise<Row> {
  const stages: Stage[] = [];
  try {
    for (const subject of subjects) {
      if (subject.serves(shape)) stages.push(await setStage(subject, shape, generator));
    }
    const rates: number[] = [];
    for (const stage of stages) {
      rates.push(chooseRate(await drive(stage, shape, closedLoop(shape, warmUpMs), generator)));
    }
    const callsPerSecond = rateOf(shape, offered ?? Math.floor(Math.min(...rates) / 2));
    const isEven = typeof shape.pace === 'number';
    const pace = (elapsedMs: number): Pace =>
      callsPerSecond === undefined
        ? closedLoop(shape, elapsedMs)
        : { kind: 'open', callsPerSecond, isEven, end: { elapsedMs } };
    const left = new Set(stages);
    const all = await takeRounds(left, { rounds, onRound }, async (stage) => {
      try {
        await drive(stage, shape, pace(REWARM_MS), generator);
        return await measure(stage, shape, pace(roundMs), generator);
      } catch (error) {
        if (!isEven) throw error;
        console.error(`  ${stage.subject.name} is left out: ${error instanceof Error ? error.message : error}`);
        left.delete(stage);
        return undefined;
      }
    });
    const measured = new Map([...all].map(([subject, measurements]) => [subject, medianResult(measurements)]));
    return { shape, callsPerSecond, measured, rounds: all };
  } finally {
    for (const stage of stages) await stage.clear();
  }
}

/**
 * Measures every stage once in each round.
 *
 * @param left  the stages that are still measured
 * @returns     their measurements, in the order of the rounds
 */
async function takeRounds(
  left: ReadonlySet<Stage>,
  { rounds, onRound }: Pick<MeasureOptions, 'rounds' | 'onRound'>,
  measureOne: (stage: Stage) => Promise<Measurement | undefined>,
): Promise<ReadonlyMap<Subject, readonly Measurement[]>> {
  const stages = [...left];
  const all = new Map<Stage, Measurement[]>(stages.map((stage) => [stage, []]));
  for (let round = 0; round < rounds; round++) {
    onRound?.(round + 1);
    for (const at of roundOrder(round, stages.length)) {
      const stage = stages[at];
      const measurement = stage && left.has(stage) ? await measureOne(stage) : undefined;
      if (stage && measurement) all.get(stage)?.push(measurement);
    }
  }
  return new Map([...all].filter(([stage]) => left.has(stage)).map(([{ subject }, of]) => [subject, of]));
}

async function measure(stage: Stage, shape: Shape, pace: Pace, generator: Generator): Promise<Measurement> {
  const { service, redisPid } = stage;
  const usages = () => ({
    service: readUsage(service.pid),
    redis: redisPid === undefined ? undefined : readUsage(redisPid),
  });
  const before = usages();
  const tally = await drive(stage, shape, pace, generator);
  const after = usages();
  const { answers, elapsedMs, p50Ms, p99Ms, cpuMs } = tally;
  const calls = answers.OK + answers.OVER_LIMIT;
  if (answers[shape.code] !== calls) {
    const got = `${answers.OK} OK and ${answers.OVER_LIMIT} OVER_LIMIT`;
    throw new Error(`${stage.subject.name} must answer ${calls} calls with ${shape.code}, got ${got}`);
  }
  const usEach = (from: Usage, to: Usage) => ((to.cpuMs - from.cpuMs) * US_PER_MS) / calls;
  return {
    callsPerSecond: chooseRate(tally),
    serviceUs: usEach(before.service, after.service),
    redisUs: before.redis && after.redis ? usEach(before.redis, after.redis) : undefined,
    p50Ms,
    p99Ms,
    memoryBytes: after.service.memoryBytes,
    generatorLoad: cpuMs / elapsedMs,
  };
}

async function drive({ subject, service }: Stage, shape: Shape, pace: Pace, generator: Generator): Promise<Tally> {
  const connections = Math.ceil(shape.connections * (subject.share ?? 1));
  try {
    return await generator.drive({ port: service.port, connections, pace, question: shape.question });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : cause;
    throw new Error(`${subject.name} failed at "${shape.name}": ${reason}`, { cause });
  }
}

const rateOf = ({ pace }: Shape, halfCapacity: number): number | undefined =>
  typeof pace === 'number' ? pace : pace === 'half capacity' ? halfCapacity : undefined;

const closedLoop = ({ callsInFlight }: Shape, elapsedMs: number): Pace => ({
  kind: 'closed',
  callsInFlight,
  end: { elapsedMs },
});

const chooseRate = ({ answers, elapsedMs }: Tally): number =>
  ((answers.OK + answers.OVER_LIMIT) / elapsedMs) * MS_PER_S;

/** The median of each number separately. */
function medianResult(rounds: readonly Measurement[]): Measurement {
  const of = (number: (round: Measurement) => number) => median(rounds.map(number));
  return {
    callsPerSecond: of((round) => round.callsPerSecond),
    serviceUs: of((round) => round.serviceUs),
    redisUs: rounds.every(({ redisUs }) => redisUs === undefined) ? undefined : of((round) => round.redisUs ?? 0),
    p50Ms: of((round) => round.p50Ms),
    p99Ms: of((round) => round.p99Ms),
    memoryBytes: of((round) => round.memoryBytes),
    generatorLoad: of((round) => round.generatorLoad),
  };
}
