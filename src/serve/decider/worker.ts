import type { Worker } from 'node:cluster';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import { Later } from '../../base/later.ts';
import { acceptBy } from '../../h2/listen/listener.ts';
import { takeUsable, type UsableFiles, usableFiles } from '../../h2/listen/usable-files.ts';
import { createLogger } from '../../operate/observe/log.ts';
import type { Settings } from '../../settings/settings.ts';
import type { FromWorker, ToWorker } from '../link/messages.ts';
import { CannotStart } from '../parts/start-up.ts';
import { createDecider } from './decider.ts';
import { ConnectionsOfSupervisor } from './handed-connections.ts';

/**
 * Answers requests as one of several processes, and reports to the supervisor, even if it cannot start.
 *
 * If the supervisor ends, Node ends its workers immediately.
 *
 * @param self  this process as a cluster worker
 * @returns     finishes the calls in flight, sends a last report, and lets the process end
 */
export async function serveAsWorker(settings: Settings, clock: Clock, self: Worker): Promise<() => Promise<void>> {
  const log = createLogger({ ...settings.log, worker: self.id });
  const send = (message: FromWorker) => new Promise<void>((resolve) => void self.send(message, () => resolve()));
  const onNeverReached = ({ message }: CannotStart) => void send({ kind: 'cannot_start', message });
  const decider = createDecider(settings, { clock, log, send, onNeverReached });
  const files = new Later<UsableFiles>();
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= decider.close().then(() => void self.disconnect());
    return closing;
  };
  const connections = new ConnectionsOfSupervisor((message) => void send(message));
  acceptBy(connections);
  self.on('message', (message: ToWorker, connection?: Socket) => {
    switch (message.kind) {
      case 'close':
        return void close();
      case 'files':
        return files.resolve(message.usable);
      case 'bound':
        return connections.bound(message);
      case 'connection':
        return connections.connection(message, connection);
      default:
        return decider.receive(message);
    }
  });

  await send({ kind: 'takes_files' });
  takeUsable(await files);
  try {
    const opening = decider.open();
    await send({ kind: 'takes_rules' });
    await send({ kind: 'listening', at: await opening });
    keepSending(send);
  } catch (error) {
    if (!(error instanceof CannotStart)) throw error;
    await send({ kind: 'cannot_start', message: error.message });
    await close();
  }
  return close;
}

const FILES_INTERVAL_MS = 1_000;

/** Sends the usable contents of files, and again whenever they have changed. */
function keepSending(send: (message: FromWorker) => Promise<void>): void {
  let sent = '';
  const sendChanged = (): void => {
    const usable = usableFiles();
    const text = JSON.stringify([...usable]);
    if (text !== sent) void send({ kind: 'files', usable });
    sent = text;
  };
  sendChanged();
  setInterval(sendChanged, FILES_INTERVAL_MS).unref();
}
