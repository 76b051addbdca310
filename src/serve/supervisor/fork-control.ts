import { type ChildProcess, fork } from 'node:child_process';
import { env, execArgv } from 'node:process';
import { fileURLToPath } from 'node:url';

/** Debuggers and profilers attach to the supervisor. */
const OF_DEBUGGERS = /^--(inspect|debug|cpu-prof|heap-prof)/;

/** V8's helper threads would take processors from the deciders, whatever the priority of the process: it has none. */
const flags = (): string[] => [...execArgv.filter((flag) => !OF_DEBUGGERS.test(flag)), '--single-threaded'];

const optionsForNode = (): string | undefined =>
  env.NODE_OPTIONS?.split(' ')
    .filter((flag) => !OF_DEBUGGERS.test(flag))
    .join(' ');

/** Starts a control process, which loads its modules, and waits for its first message. */
export const forkControl = (): ChildProcess =>
  fork(fileURLToPath(new URL('./control-process.js', import.meta.url)), {
    execArgv: flags(),
    env: { ...env, NODE_OPTIONS: optionsForNode() },
    serialization: 'advanced', // reports contain maps
  });
