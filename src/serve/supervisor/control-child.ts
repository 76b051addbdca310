import type { ChildProcess } from 'node:child_process';
import { Later } from '../../base/later.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { About, FromControl, ToControl } from '../link/messages.ts';
import { CannotStart } from '../parts/start-up.ts';
import { forkControl } from './fork-control.ts';
import { keepUp, noProcess } from './restarts.ts';
import { watchSilence } from './silence.ts';

interface ControlOptions {
  readonly log: Logger;
  /** The first control process, if it has been started already, with its first message. */
  readonly early: ChildProcess | undefined;
  /** The first message to each control process. */
  readonly start: () => ToControl;
  /** Called with the messages of the control process, except those about its start. */
  readonly onMessage: (message: FromControl) => void;
  /** Called after the first message to each control process. */
  readonly onStarted: (send: (message: ToControl) => void) => void;
}

/** A control process that hangs while the service closes is killed after this time. */
const END_GRACE_MS = 3_000;

/** Starts the control process, which is replaced whenever it ends or hangs. */
export function spawnControl({ log, early, start, onMessage, onStarted }: ControlOptions) {
  const closing = new AbortController();
  let child: ChildProcess | undefined;
  let ended = Promise.resolve('');
  const opened = new Later<About>(); // the start fails with it

  /** A message that no control process can take is dropped: the next one learns the state when it starts. */
  const send = (message: ToControl): void => {
    if (child?.connected) child.send(message, () => {}); // a failure is followed by its end
  };
  const spawn = (isFirst: boolean): { readonly ended: Promise<string> } => {
    try {
      return follow(isFirst && early ? early : forkControl(), isFirst);
    } catch (error) {
      return { ended: Promise.resolve(noProcess(error)) }; // Node throws some reasons, and emits others
    }
  };
  const follow = (started: ChildProcess, isFirst: boolean) => {
    child = started;
    const silence = watchSilence('control process', started, log);
    let isOpen = false;
    started.on('message', (message: FromControl) => {
      isOpen ||= message.kind === 'opened';
      silence.heard();
      if (isOpen) silence.expect();
      if (message.kind === 'opened') {
        if (!isFirst) log.warn('the control process was replaced');
        return opened.resolve(message.about);
      }
      if (message.kind !== 'failed') return onMessage(message);
      if (!isFirst) log.error(`control process cannot start: ${message.message}`);
      else opened.reject(new CannotStart(message.message));
    });
    ended = waitForEnd(started);
    const message = start();
    if (started !== early) send(message);
    onStarted(send);
    return { ended };
  };
  const first = spawn(true);
  void first.ended.then((how) =>
    opened.reject(new CannotStart(`the control process exited before it was open: ${how}`)),
  );
  void opened
    .then(() =>
      keepUp({
        first,
        replace: () => spawn(false),
        closing: closing.signal,
        onEnd: (how, waitMs) =>
          log.error(`control process exited (${how}); restarting in ${waitMs} ms; requests are answered meanwhile`),
      }),
    )
    .catch(() => {}); // it could not start
  return {
    /** Rejects with CannotStart if the first one cannot start. */
    opened,
    send,
    keepAlone: (): void => closing.abort(), // it is not replaced any more
    /** Lets it end, and kills it if it takes too long. */
    async close(): Promise<void> {
      closing.abort();
      const killer = setTimeout(() => child?.kill('SIGKILL'), END_GRACE_MS);
      send({ kind: 'close' });
      if (child?.exitCode === null && child.signalCode === null && child.pid !== undefined) await ended;
      clearTimeout(killer);
    },
  };
}

const waitForEnd = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) => {
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(noProcess(error));
    });
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
