import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { env, execArgv } from 'node:process';
import { fileURLToPath } from 'node:url';
import type { ControlStart, ToControl } from '../link/messages.ts';

/** The flags for Node that the control process shares; what else is loaded or attached belongs to the supervisor. */
const SHARED_FLAG = /^--max-/;

/**
 * V8's helper threads would take processors from the deciders, whatever the priority of the process, so it has none. It
 * collects a small young generation more often, which costs a tenth more time to check rules, and saves megabytes.
 */
const flags = (): string[] => [
  ...[...(env.NODE_OPTIONS?.split(' ') ?? []), ...execArgv].filter((flag) => SHARED_FLAG.test(flag)),
  '--single-threaded',
  '--optimize-for-size',
];

/** Starts a control process, which loads its modules, and waits for its first message. */
export const forkControl = (): ChildProcess =>
  fork(fileURLToPath(new URL('./control-process.js', import.meta.url)), {
    execArgv: flags(),
    env: { ...env, NODE_OPTIONS: undefined },
    serialization: 'advanced', // reports contain maps
  });

/** More questions than a control process asks. */
const NUMBERS_EACH = 2 ** 32;

/** Shows a control process, also a later one, that a client has read what the service printed at its start. */
const localToken = randomBytes(24).toString('base64url');

/** What is the same for all control processes of a service. */
export type ControlSource = Pick<ControlStart, 'version' | 'env' | 'rules'>;

/**
 * The first message to a control process.
 *
 * @param number  of the control processes before it
 * @param kept    the state that those have left
 */
export const startMessage = (
  source: ControlSource,
  number: number,
  kept: Pick<ControlStart, 'overrides' | 'kept'>,
): ToControl => ({
  kind: 'start',
  start: { ...source, ...kept, localToken, isReplacement: number > 0, firstNumber: number * NUMBERS_EACH },
});

/** Starts the first control process, which loads its modules and reads rules while this one loads the service. */
export function startControl(source: ControlSource): ChildProcess {
  const control = forkControl();
  control.send(startMessage(source, 0, { overrides: undefined, kept: new Map() }), () => {}); // a failure is followed by its end
  return control;
}
