import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { constants, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '../../../src/operate/observe/log.ts';
import type { FromControl } from '../../../src/serve/link/messages.ts';
import { keepControl } from '../../../src/serve/supervisor/control-child.ts';
import { until } from '../../helpers/until.ts';

/** A control process that sends what it is asked to send. */
const PROGRAM = `
process.on('message', (message) => {
  if (message.kind === 'say' && message.message.kind === 'busy') for (;;);
  if (message.kind === 'say') process.send(message.message);
  if (message.kind === 'close') process.exit();
});
`;
const ABOUT = { debug: '', console: '', rules: '', details: [], example: undefined };
const A_SECOND_MS = 1_000;

let folder: string;
let child: ChildProcess;
let control: ReturnType<typeof keepControl>;
let received: string[];

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'performance', 'setTimeout', 'clearTimeout', 'setImmediate'] });
  folder = mkdtempSync(join(tmpdir(), 'control-child-'));
  writeFileSync(join(folder, 'control.cjs'), PROGRAM);
  child = fork(join(folder, 'control.cjs'), { execArgv: [], serialization: 'advanced' });
  received = [];
  child.on('message', ({ kind }: { readonly kind: string }) => received.push(kind));
  control = keepControl({
    log: createLogger({ level: 'silent', format: 'json' }),
    first: child,
    onMessage: () => {},
    onReplaced: () => {},
  });
});
afterEach(async () => {
  jest.useRealTimers();
  child.kill('SIGKILL');
  await control.close();
});

const say = (message: object): void => control.send({ kind: 'say', message } as never); // the program's own message

/** Waits until the child has sent a message, at the supervisor's present time. */
async function hears(message: FromControl): Promise<void> {
  const before = received.length;
  say(message);
  await until(`'${message.kind}'`, () => received.length > before);
}

const pass = (seconds: number): void => jest.advanceTimersByTime(seconds * A_SECOND_MS);

test('kills a control process that is silent at four checks after it has opened', async () => {
  await hears({ kind: 'opened', about: ABOUT });
  child.kill('SIGSTOP');
  const ended = once(child, 'exit');
  pass(30);
  expect(child.killed && child.signalCode).toBeFalsy();
  pass(10);
  expect(await ended).toEqual([null, 'SIGKILL']);
});

test('lets a silent control process live while it waits for a processor', async () => {
  await hears({ kind: 'opened', about: ABOUT });
  const pinned = ['-c', '0', process.execPath, '-e', 'console.log("busy"); for (;;);'];
  const rival = spawn('taskset', pinned, { stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    await once(rival.stdout, 'data');
    const ended = once(child, 'exit');
    execFileSync('taskset', ['-p', '-c', '0', String(child.pid)]);
    setPriority(child.pid ?? 0, constants.priority.PRIORITY_LOW);
    pass(30);
    say({ kind: 'busy' });
    const waitedNs = (): number => Number(readFileSync(`/proc/${child.pid}/schedstat`, 'utf8').split(' ')[1]);
    const beforeNs = waitedNs();
    await until('it has waited for more than half of an interval', () => waitedNs() - beforeNs > 5.5e9);
    pass(10);
    expect(child.killed || child.signalCode).toBeFalsy();
    child.kill('SIGSTOP'); // now it hangs
    pass(10);
    expect(await ended).toEqual([null, 'SIGKILL']);
  } finally {
    rival.kill('SIGKILL');
  }
});

test('lets a control process live that sends a message in time, or is still starting', async () => {
  pass(100);
  await hears({ kind: 'opened', about: ABOUT });
  for (const _ of Array.from({ length: 4 })) {
    pass(20);
    await hears({ kind: 'alive' });
  }
  expect(child.signalCode).toBeNull();
});
