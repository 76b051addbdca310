import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startWeir, type Weir } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { processorWaitMs, readUsage } from '../processes/process-tree.ts';
import { median, range } from '../tables/figures.ts';
import { roundOrder } from '../tables/order.ts';
import { table } from '../tables/table.ts';
import type { Load, Tally } from './generator/drive.ts';
import { type Generator, startGenerator } from './generator/generator.ts';
import type { Question } from './generator/requests.ts';

export const usage = `Usage: npm run proof -- operators [options]

Calls at a steady rate while operators do nothing, and while they use the service in several ways; prints latencies, the processor time of the service, and
p99 with each use divided by p99 without. Counters are in memory. Exits with 1 if that ratio exceeds 1.3 and the highest ratio of the first control.

The process that decides has one processor, the load generator another, if there are two and taskset; the control process and the operators' client have any, and the
client the lowest priority. Latencies are measured at the caller, from when a call was due. The last columns are the times that the generator and the main thread of
the process that decides were ready to run and had no processor.

Controls: the same load once more, and an unrelated process that uses, once a second, as much processor time as a reload, at the priority of the control process.

All loads are repeated in rounds, in a different order each time; figures are medians over the rounds, and ratios compare the loads of one round.

  --rules N    rules in the file, and in the candidate (5000)
  --rate N     calls a second (2000)
  --seconds N  how long each load lasts, and the pause after it (5)
  --rounds N   how often each load is repeated (7)
  --help       this text
`;

const options = {
  rules: { type: 'string', default: '5000' },
  rate: { type: 'string', default: '2000' },
  seconds: { type: 'string', default: '5' },
  rounds: { type: 'string', default: '7' },
} as const;

const DOMAIN = 'bench';
const TOKEN = 'operator';
const CONNECTIONS = 4;
const MS_PER_SECOND = 1_000;
const REPEAT_MS = 1_000;
const CONSOLES = 20;
/** As many descriptors that match no rule are sent before their list is requested. */
const UNMATCHED = 40_000;
/** A `Question` has a power of ten of values; those beyond the rules match none. */
const RULE_VALUES = 10_000;
const MAX_RULES = RULE_VALUES;
const MAX_RATIO = 1.3;
const LOWEST_PRIORITY = 19;
/** That of the control process. */
const CONTROL_PRIORITY = 5;

interface OperatorOptions {
  readonly rules: number;
  /** Calls a second. */
  readonly rate: number;
  readonly seconds: number;
  readonly rounds: number;
}

/** The service, and what its operators reach. */
interface Site {
  readonly weir: Weir;
  readonly generator: Generator;
  readonly folder: string;
  /** The file of rules of a new version, which has other limits, so that all rules are compiled again. */
  nextRules(): string;
  /** Processor time of a reload, as measured so far. */
  reloadCpuMs(): number;
}

/** One use of the service by operators. */
interface Use {
  readonly name: string;
  /** Called before calls are measured. */
  prepare?(site: Site): Promise<void>;
  /** Uses the service until the signal. @returns  how often, if that is a number */
  run(site: Site, end: AbortSignal): Promise<number | undefined>;
  /** Called after calls were measured. */
  clear?(site: Site): Promise<void>;
}

/** The result of one load. */
interface Sample extends Tally {
  /** Processor time of all processes of the service, as a fraction of one processor. */
  readonly cpu: number;
  readonly times: number | undefined;
  /** Milliseconds per second; NaN if the kernel does not count them. */
  readonly deciderWait: number;
  readonly generatorWait: number;
}

/** The samples of one use, round by round. */
interface Measured {
  readonly name: string;
  readonly samples: readonly Sample[];
  /** p99 ÷ p99 without any use, round by round. */
  readonly ratios: readonly number[];
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const [rate, seconds, rounds] = (['rate', 'seconds', 'rounds'] as const).map((name) =>
    parseCount(`--${name}`, values[name]),
  ) as [number, number, number];
  const rules = parseCount('--rules', values.rules, MAX_RULES);
  setPriority(LOWEST_PRIORITY); // the operators' client would be on another machine
  const { measured, series, processors } = await measureOperators({ rules, rate, seconds, rounds });
  console.log(describe(measured, `${rules} rules, ${rate} calls/s`));
  console.log(`\n/metrics has ${series} series. ${processors}.`);
  const above = exceeding(measured);
  for (const { name, ratios } of above)
    console.log(`p99 is multiplied by ${median(ratios).toFixed(2)}, more than ${MAX_RATIO}: ${name}`);
  if (above.length > 0) process.exitCode = 1;
}

/** Those whose p99 grows by more than permitted, and by more than without any use. */
function exceeding<M extends Pick<Measured, 'ratios'>>([, control, ...others]: readonly M[]): readonly M[] {
  const permitted = Math.max(MAX_RATIO, ...(control?.ratios ?? []));
  return others.filter(({ ratios }) => median(ratios) > permitted);
}

interface Result {
  /** Nothing, the same again, then each use. */
  readonly measured: readonly Measured[];
  /** The number of series on /metrics. */
  readonly series: number;
  /** Where processes run, in words. */
  readonly processors: string;
}

async function measureOperators({ rules, rate, seconds, rounds }: OperatorOptions): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'operators-'));
  let version = 0;
  const samples: Sample[][] = uses.map(() => []);
  const medianCpu = (name: string): number =>
    median((samples[uses.findIndex((use) => use.name === name)] ?? []).map(({ cpu }) => cpu));
  const nextRules = (): string => ruleFile(rules, ++version);
  writeFileSync(join(folder, 'rules.yaml'), nextRules());
  const generator = startGenerator();
  const weir = await startWeir({ LOG_LEVEL: 'warn', ADMIN_TOKEN: TOKEN }, { args: ['--rules', folder] });
  const reloadCpuMs = () => (medianCpu(RELOAD) - medianCpu(NOTHING)) * REPEAT_MS || 0;
  const site: Site = { weir, generator, folder, nextRules, reloadCpuMs };
  try {
    const processors = pin(weir.pid, generator.pid);
    console.error('warm up …');
    await send(site, 'rule', RULE_VALUES, RULE_VALUES);
    const load: Load = {
      port: weir.grpcPort,
      connections: CONNECTIONS,
      pace: { kind: 'open', callsPerSecond: rate, end: { elapsedMs: seconds * MS_PER_SECOND } },
      question: { domain: DOMAIN, descriptors: [{ key: 'user', value: 'user', values: 1_000 }] },
    };
    await generator.drive(load);
    for (const round of range(rounds))
      for (const at of roundOrder(round, uses.length)) {
        const use = uses[at] as Use; // the order has a position for each
        console.error(`round ${round + 1} of ${rounds}: ${use.name} …`);
        samples[at]?.push(await sample(use, load, site));
        await sleep(seconds * MS_PER_SECOND);
      }
    const [without = []] = samples;
    const measured = uses.map(({ name }, at): Measured => {
      const own = samples[at] ?? [];
      return { name, samples: own, ratios: own.map(({ p99Ms }, round) => p99Ms / (without[round]?.p99Ms ?? 0)) };
    });
    return { measured, series: seriesIn(await page(site, '/metrics')), processors };
  } finally {
    generator.stop();
    await weir.stop();
    rmSync(folder, { recursive: true });
  }
}

const NOTHING = 'nothing';
const RELOAD = 'the rules are rewritten once a second';

const uses: readonly Use[] = [
  { name: NOTHING, run: async () => undefined },
  { name: 'control: nothing, again', run: async () => undefined },
  {
    name: 'control: another process',
    run(site, end) {
      const bursts = [String(site.reloadCpuMs()), String(REPEAT_MS)];
      const busy = spawn(process.execPath, ['-e', BURN, ...bursts], { stdio: 'ignore' });
      if (busy.pid !== undefined) setPriority(busy.pid, CONTROL_PRIORITY);
      return new Promise((resolve) => {
        busy.once('exit', () => resolve(undefined));
        end.addEventListener('abort', () => void busy.kill('SIGKILL'));
      });
    },
  },
  {
    name: RELOAD,
    run: (site, end) =>
      repeat(end, REPEAT_MS, () => {
        writeFileSync(join(site.folder, 'rules.new'), site.nextRules());
        renameSync(join(site.folder, 'rules.new'), join(site.folder, 'rules.yaml'));
      }),
  },
  {
    name: 'a broken file lies beside the rules',
    async prepare({ folder }) {
      writeFileSync(join(folder, 'broken.yaml'), 'domain: [\n');
    },
    run: async () => undefined,
    async clear({ folder }) {
      rmSync(join(folder, 'broken.yaml'));
    },
  },
  {
    name: 'a candidate of as many rules is sent once a second',
    run: (site, end) =>
      repeat(end, REPEAT_MS, () => page(site, '/api/v1/candidate?reason=proof', 'POST', site.nextRules())),
    clear: async (site) =>
      void (await page(site, '/api/v1/candidate', 'DELETE', JSON.stringify({ reason: 'the proof is over' }))),
  },
  { name: '/metrics in a loop', run: (site, end) => repeat(end, 0, () => page(site, '/metrics')) },
  {
    name: 'explain in a loop',
    run(site, end) {
      const request = JSON.stringify({
        domain: DOMAIN,
        descriptors: [{ entries: [{ key: 'user', value: 'user-1' }] }],
      });
      return repeat(end, 0, () => page(site, '/api/v1/explain', 'POST', request));
    },
  },
  {
    name: `${UNMATCHED} unmatched descriptors, listed in a loop`,
    prepare: (site) => send(site, 'path', 100_000, UNMATCHED),
    run: (site, end) => repeat(end, 0, () => page(site, '/api/v1/unmatched?count=500')),
  },
  {
    name: `${CONSOLES} pages of the console`,
    async run(site, end) {
      const opened = await Promise.all(range(CONSOLES).map(() => openConsole(site, end)));
      return opened.reduce((sum, events) => sum + events, 0);
    },
  },
];

/** A program that uses `cpuMs` of processor time in each `intervalMs`. */
const BURN = `
const [cpuMs, intervalMs] = process.argv.slice(1).map(Number);
setInterval(() => {
  const start = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(start);
    if ((user + system) / 1_000 >= cpuMs) return;
  }
}, intervalMs);
`;

/** Repeats a step until the signal, beginning at most once in the interval. @returns  how often */
async function repeat(end: AbortSignal, intervalMs: number, step: () => unknown): Promise<number> {
  let times = 0;
  while (!end.aborted) {
    const paused = sleep(intervalMs);
    await step();
    times++;
    await paused;
  }
  return times;
}

/** Pages that a browser loads when it opens the console. */
const CONSOLE_PATHS = [
  ...['/console/', '/console/app.js', '/api/v1/session'],
  ...['/api/v1/series?range=60s', '/api/v1/series/rules', '/api/v1/rules'],
];

/** Does what a browser does: loads the console, then follows the snapshots. @returns  the number of answers and snapshots */
async function openConsole(site: Site, end: AbortSignal): Promise<number> {
  for (const path of CONSOLE_PATHS) await page(site, path);
  let received = CONSOLE_PATHS.length;
  try {
    const { body } = await fetch(debugUrl(site, '/api/v1/events'), { headers, signal: end });
    for await (const _ of body ?? []) received++;
  } catch (error) {
    if (!end.aborted) throw error;
  }
  return received;
}

const headers = { authorization: `Bearer ${TOKEN}` };
const debugUrl = ({ weir }: Site, path: string): string => `http://127.0.0.1:${weir.debugPort}${path}`;

/** Reads a page. @throws  its status is not 200 */
async function page(site: Site, path: string, method = 'GET', body?: string): Promise<string> {
  const type = { 'content-type': path.includes('candidate?') ? 'application/yaml' : 'application/json' };
  const init = {
    method,
    headers: { ...headers, ...(body !== undefined && type) },
    ...(body !== undefined && { body }),
  };
  const answer = await fetch(debugUrl(site, path), init);
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${method} ${path} answered ${answer.status}: ${text.slice(0, 500)}`);
  return text;
}

const seriesIn = (metrics: string): number => metrics.split('\n').filter((line) => /^[^#]/.test(line)).length;

/** Makes as many calls as fast as they are answered. */
async function send({ weir, generator }: Site, key: string, values: number, calls: number): Promise<void> {
  const question: Question = { domain: DOMAIN, descriptors: [{ key, value: key, values }] };
  const pace = { kind: 'closed', callsInFlight: 16, end: { calls } } as const;
  await generator.drive({ port: weir.grpcPort, connections: CONNECTIONS, pace, question });
}

/** Runs the load once, with this use of the service. */
async function sample(use: Use, load: Load, site: Site): Promise<Sample> {
  const { weir, generator } = site;
  const state = () => ({
    cpuMs: readUsage(weir.pid).cpuMs,
    deciderWaitMs: processorWaitMs(weir.pid) ?? Number.NaN,
    generatorWaitMs: processorWaitMs(generator.pid) ?? Number.NaN,
  });
  await use.prepare?.(site);
  const end = new AbortController();
  const before = state();
  const running = use.run(site, end.signal);
  running.catch(() => {}); // reported below
  const tally = await generator.drive(load).finally(() => end.abort());
  const after = state();
  const times = await running;
  await use.clear?.(site);
  const perSecond = (ms: number): number => (ms / tally.elapsedMs) * MS_PER_SECOND;
  return {
    ...tally,
    cpu: (after.cpuMs - before.cpuMs) / tally.elapsedMs,
    times,
    deciderWait: perSecond(after.deciderWaitMs - before.deciderWaitMs),
    generatorWait: perSecond(after.generatorWaitMs - before.generatorWaitMs),
  };
}

/** Gives each of two processes a processor of its own, if there are enough. @returns  whether it did, in words */
function pin(decider: number, generator: number): string {
  if (spawnSync('taskset', ['--version']).status !== 0) return 'No process has a processor of its own: no taskset';
  const allowed = execFileSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' });
  const processors = (/: (\S+)\s*$/.exec(allowed)?.[1] ?? '').split(',').flatMap((part) => {
    const [first = 0, last = first] = part.split('-').map(Number);
    return range(last - first + 1).map((at) => first + at);
  });
  const [one, other] = processors;
  if (one === undefined || other === undefined) return 'No process has a processor of its own: there is one';
  for (const [processor, pid] of [[one, decider] as const, [other, generator] as const])
    execFileSync('taskset', ['-a', '-c', '-p', String(processor), String(pid)]);
  return `The process that decides has processor ${one}, the generator ${other}, of ${processors.length}`;
}

/** A table with a line for each use. */
function describe(measured: readonly Measured[], load: string): string {
  const lines = measured.map(({ name, samples, ratios }, at) => {
    const middle = (of: (sample: Sample) => number): number => median(samples.map(of));
    const sorted = [...ratios].sort((one, other) => one - other);
    const isCounted = samples.every(({ times }) => times !== undefined);
    const waits = [middle(({ deciderWait }) => deciderWait), middle(({ generatorWait }) => generatorWait)];
    return [
      name,
      middle(({ p50Ms }) => p50Ms).toFixed(2),
      middle(({ p99Ms }) => p99Ms).toFixed(2),
      at === 0 ? '' : `${median(ratios).toFixed(2)} (${sorted[0]?.toFixed(2)} to ${sorted.at(-1)?.toFixed(2)})`,
      isCounted ? middle(({ times, elapsedMs }) => ((times ?? 0) / elapsedMs) * MS_PER_SECOND).toFixed(1) : '',
      `${(middle(({ cpu }) => cpu) * 100).toFixed(0)} %`,
      ...waits.map((ms) => (Number.isNaN(ms) ? '' : ms.toFixed(1))),
    ];
  });
  const head = [
    ...[load, 'p50 ms', 'p99 ms', 'p99 ÷ without', 'times/s', 'processor'],
    ...['decider waits, ms/s', 'generator waits, ms/s'],
  ];
  return table(head, 1, lines);
}

function ruleFile(count: number, version: number): string {
  const limit = `rate_limit: {unit: hour, requests_per_unit: ${1_000_000 + version}}`;
  const rules = range(count).map((at) => `  - {key: rule, value: rule-${String(at).padStart(6, '0')}, ${limit}}`);
  const user = '  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}';
  return [`domain: ${DOMAIN}`, 'descriptors:', user, ...rules, ''].join('\n');
}
