import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const COUNT_TIMERS = fileURLToPath(new URL('../helpers/count-timers.cjs', import.meta.url));

const isExpected = (timer: string): boolean => Number.parseInt(timer, 10) > 1_000;

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

const OBSERVED_MS = 3_000;

/** The timers that fire while the process is observed. */
async function timersThatFire(): Promise<readonly string[]> {
  const before = await timers();
  await sleep(OBSERVED_MS);
  const after = await timers();
  return Object.keys(after).filter((timer) => after[timer] !== before[timer]);
}

test('while nothing is in flight, no timer of a second or less fires in a decider', async () => {
  weir = await startWeir({ NODE_OPTIONS: `--require ${COUNT_TIMERS}` });
  const target = ['--grpc', `localhost:${weir.grpcPort}`];
  await promisify(execFile)(process.execPath, [MAIN, 'ask', 'demo', 'user=ann', ...target]);
  await fetch(`http://127.0.0.1:${weir.httpPort}/healthcheck`);
  await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`);
  // timers that these calls started stop again after a while
  let unexpected: readonly string[] = [];
  await eventually(
    async () => {
      unexpected = (await timersThatFire()).filter((timer) => !isExpected(timer));
      return unexpected.length === 0;
    },
    () => `timers go on firing: ${unexpected.join('; ')}`,
  );
});
