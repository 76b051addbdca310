import { type ChildProcess, fork } from 'node:child_process';
import { env, execArgv } from 'node:process';
import { fileURLToPath } from 'node:url';

/** The flags for Node that the control process shares; what else is loaded or attached belongs to the supervisor. */
const SHARED_FLAG = /^--max-/;

/** V8's helper threads would take processors from the deciders, whatever the priority of the process: it has none. */
const flags = (): string[] => [
  ...[...(env.NODE_OPTIONS?.split(' ') ?? []), ...execArgv].filter((flag) => SHARED_FLAG.test(flag)),
  '--single-threaded',
];

/** Starts a control process, which loads its modules, and waits for its first message. */
export const forkControl = (): ChildProcess =>
  fork(fileURLToPath(new URL('./control-process.js', import.meta.url)), {
    execArgv: flags(),
    env: { ...env, NODE_OPTIONS: undefined },
    serialization: 'advanced', // reports contain maps
  });
