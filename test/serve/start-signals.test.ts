import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf, signal } from '../helpers/child-processes.ts';
import { freePort, type Running, start } from '../helpers/process.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN } from '../helpers/weir.ts';

const RULES = 'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 50}}]\n';
const ENDED = 'weir: stopped by SIGTERM during startup\n';
const INTERVAL_MS = 20;

/** Options of `unshare`: the program is the first process of a namespace, as in a container. */
const AS_FIRST = ['--pid', '--fork', '--kill-child'];

/** Whether the signal came after the start, which waits only a second. */
const wasOpen = ({ output }: Running): boolean => output().includes('shutting down: SIGTERM');

/** The output without the log. */
const printedBy = ({ output }: Running): string => output().replaceAll(/^.*\b(INFO|WARN|ERROR): .*\n/gm, '');

const canUnshare = ((): boolean => {
  try {
    execFileSync('unshare', [...AS_FIRST, 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

let folder: string;
let rules: string;
let running: Running | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'start-signals-'));
  rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
});
afterEach(async () => {
  await running?.stop('SIGKILL');
});

/** A start that waits a second for an unreachable store. */
async function starting(command: readonly [string, ...string[]], flags: readonly string[]): Promise<Running> {
  const { PATH } = process.env;
  const ports = { PORT: '0', DEBUG_PORT: '0', GRPC_PORT: '0', DEBUG_HOST: '127.0.0.1', USE_STATSD: 'false' };
  const store = { REDIS_URL: `redis://127.0.0.1:${await freePort()}`, LOG_LEVEL: 'info' };
  const env = { PATH, ...ports, ...store, ...(flags.length === 0 && { RULES_PATH: rules }) };
  running = await start(command[0], [...command.slice(1), MAIN, 'serve', ...flags], { env });
  return running;
}

const flagsOf = (kind: string): readonly string[] => (kind === 'with flags' ? ['--rules', rules] : []);

test.each(['with flags', 'without flags'])('SIGTERM during the start, %s, ends the process with 0', async (kind) => {
  let service: Running;
  do {
    service = await starting([process.execPath], flagsOf(kind));
    await service.waitFor('loaded 1 rule ');
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
  } while (wasOpen(service)); // this process slept for longer than the start took
  expect(service.output()).toContain(ENDED);
});

const testAsFirst = canUnshare ? test : test.skip;
const why = canUnshare ? '' : ' (skipped: unshare --pid is not permitted here)';

testAsFirst(`so it does where the service is the first process of a container${why}`, async () => {
  for (const kind of ['with flags', 'without flags']) {
    let service: Running;
    do {
      service = await starting(['unshare', ...AS_FIRST, process.execPath], flagsOf(kind));
      await signalUntilEnd(service);
    } while (wasOpen(service));
    const exit = await service.exited;
    // before the service runs code, a second signal during Node's own handler of the first ends the process
    const isByNode = exit.signal === 'SIGTERM';
    expect(exit).toEqual(isByNode ? { code: null, signal: 'SIGTERM' } : { code: 0, signal: null });
    expect(printedBy(service)).toBe(isByNode ? '' : ENDED);
  }
});

/** Sends SIGTERM to its children again and again until it has ended. */
async function signalUntilEnd(service: Running): Promise<void> {
  let hasEnded = false;
  void service.exited.then(() => {
    hasEnded = true;
  });
  await eventually(async () => {
    for (const pid of childrenOf(service.pid)) signal(pid, 'SIGTERM'); // the first signals arrive before it runs code
    await sleep(INTERVAL_MS);
    return hasEnded;
  }, service.output);
}
