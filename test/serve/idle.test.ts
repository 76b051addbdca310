import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const COUNT_TIMERS = fileURLToPath(new URL('../helpers/count-timers.cjs', import.meta.url));

/** The timer that checks rule files, once a second. */
const FILE_CHECK = /^1000 ms .*openRuleBook/;
/** The timer that reads counts for the console's series, once a second. */
const SERIES = /^1000 ms at Object\.every/;

const isExpected = (timer: string): boolean =>
  Number.parseInt(timer, 10) > 1_000 || FILE_CHECK.test(timer) || SERIES.test(timer);

let weir: Weir;
afterEach(() => weir.stop());

/** How often each timer has fired since the start. */
async function timers(): Promise<Readonly<Record<string, number>>> {
  const linesOf = () => weir.output().match(/^timers .*$/gm) ?? [];
  const before = linesOf().length;
  process.kill(weir.pid, 'SIGUSR2');
  await weir.waitFor(() => linesOf().length > before);
  return JSON.parse(linesOf().at(-1)?.slice('timers '.length) ?? '');
}

const fileChecks = (counts: Readonly<Record<string, number>>): number =>
  Object.entries(counts).reduce((sum, [timer, count]) => sum + (FILE_CHECK.test(timer) ? count : 0), 0);

/** The timers that have fired between two checks of the rule files. */
async function timersInThreeChecks(): Promise<readonly string[]> {
  const before = await timers();
  await eventually(async () => fileChecks(await timers()) >= fileChecks(before) + 3);
  const after = await timers();
  return Object.keys(after).filter((timer) => after[timer] !== before[timer]);
}

test("while nothing is in flight, only these timers fire: the check of rule files and the console's series each second, and statistics", async () => {
  weir = await startWeir({ NODE_OPTIONS: `--require ${COUNT_TIMERS}` });
  const target = ['--target', `localhost:${weir.grpcPort}`];
  await promisify(execFile)(process.execPath, [MAIN, 'ask', 'demo', 'user=ann', ...target]);
  await fetch(`http://127.0.0.1:${weir.httpPort}/healthcheck`);
  await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`);
  // timers that these calls started stop again after a while
  let unexpected: readonly string[] = [];
  await eventually(
    async () => {
      unexpected = (await timersInThreeChecks()).filter((timer) => !isExpected(timer));
      return unexpected.length === 0;
    },
    () => `timers go on firing: ${unexpected.join('; ')}`,
  );
});
