import { type ChildProcess, spawn } from 'node:child_process';
import inspector from 'node:inspector';
import { watchSilence } from '../../../src/serve/supervisor/silence.ts';

const log = { error: () => {} } as unknown as Parameters<typeof watchSilence>[2]; // the part that it uses
/** Longer than a process may be silent. */
const LONG_MS = 100_000;

let child: ChildProcess;
beforeEach(() => jest.useFakeTimers());
afterEach(() => {
  jest.useRealTimers();
  child.kill('SIGKILL');
});

test('a process that could not be started is not watched', () => {
  child = spawn('/no/such/program');
  child.on('error', () => {});
  watchSilence('worker', child, log);
  expect(child.pid).toBeUndefined();
  expect(jest.getTimerCount()).toBe(0);
});

test('a silent process is killed, unless a debugger may have stopped it', () => {
  child = spawn('sleep', ['60']);
  inspector.open(0, '127.0.0.1');
  watchSilence('worker', child, log).expect();
  jest.advanceTimersByTime(LONG_MS);
  expect(child.killed).toBe(false);
  inspector.close();
  jest.advanceTimersByTime(LONG_MS);
  expect(child.killed).toBe(true);
});
