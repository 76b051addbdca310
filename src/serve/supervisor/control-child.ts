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
  /** The first control process, which has been sent its first message. */
  readonly first: ChildProcess;
  /** Called with the messages of the control process, except those about its start. */
  readonly onMessage: (message: FromControl) => void;
  /** Sends each later control process its first messages. */
  readonly onReplaced: (send: (message: ToControl) => void) => void;
}

/** A control process that hangs while the service closes is killed after this time. */
const END_GRACE_MS = 3_000;

/** Follows the control process, which is replaced whenever it ends or hangs. */
export function keepControl({ log, first, onMessage, onReplaced }: ControlOptions) {
  const closing = new AbortController();
  let child = first;
  let ended = waitForEnd(first);
  const opened = new Later<About>(); // the start fails with it

  /** A message that no control process can take is dropped: the next one learns the state when it starts. */
  const send = (message: ToControl): void => {
    if (child.connected) child.send(message, () => {}); // a failure is followed by its end
  };
  const follow = (started: ChildProcess): void => {
    const isFirst = started === first;
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
  };
  const replace = () => {
    child = forkControl();
    ended = waitForEnd(child);
    follow(child);
    onReplaced(send);
    return { ended };
  };
  follow(first);
  void ended.then((how) => opened.reject(new CannotStart(`the control process exited before it was open: ${how}`)));
  void opened
    .then(() =>
      keepUp({
        first: { ended },
        replace,
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
      const killer = setTimeout(() => child.kill('SIGKILL'), END_GRACE_MS);
      send({ kind: 'close' });
      if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) await ended;
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
