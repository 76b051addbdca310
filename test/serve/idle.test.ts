import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const COUNT_TIMERS = fileURLToPath(new URL('../helpers/count-timers.cjs', import.meta.url));

/** The timer of the sample of refusals, once a second. */
const EACH_SECOND = /^1000 ms at .*every/;

const isExpected = (timer: string): boolean => Number.parseInt(timer, 10) > 1_000 || EACH_SECOND.test(timer);

let weir: Weir;
afterEach(() => weir.stop());

/** How often each timer of the main process has fired since the start. */
async function timers(): Promise<Readonly<Record<string, number>>> {
  const linesOf = () => weir.output().match(/^timers .*$/gm) ?? [];
  const before = linesOf().length;
  process.kill(weir.pid, 'SIGUSR2');
  await weir.waitFor(() => linesOf().length > before);
  return JSON.parse(linesOf().at(-1)?.slice('timers '.length) ?? '');
}

const secondsIn = (counts: Readonly<Record<string, number>>): number =>
  Object.entries(counts).reduce((sum, [timer, count]) => sum + (EACH_SECOND.test(timer) ? count : 0), 0);

/** The timers that have fired in three seconds. */
async function timersInThreeSeconds(): Promise<readonly string[]> {
  const before = await timers();
  await eventually(async () => secondsIn(await timers()) >= secondsIn(before) + 3);
  const after = await timers();
  return Object.keys(after).filter((timer) => after[timer] !== before[timer]);
}

test('while nothing is in flight, a decider has no timer of a second or less but that of its sample of refusals', async () => {
  weir = await startWeir({ NODE_OPTIONS: `--require ${COUNT_TIMERS}` });
  const target = ['--target', `localhost:${weir.grpcPort}`];
  await promisify(execFile)(process.execPath, [MAIN, 'ask', 'demo', 'user=ann', ...target]);
  await fetch(`http://127.0.0.1:${weir.httpPort}/healthcheck`);
  await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`);
  // timers that these calls started stop again after a while
  let unexpected: readonly string[] = [];
  await eventually(
    async () => {
      unexpected = (await timersInThreeSeconds()).filter((timer) => !isExpected(timer));
      return unexpected.length === 0;
    },
    () => `timers go on firing: ${unexpected.join('; ')}`,
  );
});
