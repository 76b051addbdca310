import { type ChildProcess, fork } from 'node:child_process';
import { execArgv } from 'node:process';
import { fileURLToPath } from 'node:url';

/**
 * V8's helper threads would take processors from the deciders, whatever the priority of the process: it has none.
 * Debuggers attach to the supervisor.
 */
const flags = (): string[] => [
  ...execArgv.filter((flag) => !/^--(inspect|debug|cpu-prof|heap-prof)/.test(flag)),
  '--single-threaded',
];

/** Starts a control process, which loads its modules, and waits for its first message. */
export const forkControl = (): ChildProcess =>
  fork(fileURLToPath(new URL('./control-process.js', import.meta.url)), {
    execArgv: flags(),
    serialization: 'advanced', // reports contain maps
  });
