import type { Socket } from 'node:net';
import type { Acceptor, BindAddress } from '../../h2/listen/listener.ts';
import type { FromWorker, ToWorker } from '../link/messages.ts';

interface Door {
  readonly take: (connection: Socket) => void;
  readonly onBound: (message: Extract<ToWorker, { kind: 'bound' }>) => void;
}

/** Has the supervisor listen for the servers of this worker, and takes the connections that it passes on. */
export class ConnectionsOfSupervisor implements Acceptor {
  readonly #doors = new Map<string, Door>();
  readonly #send: (message: FromWorker) => void;
  #count = 0;

  constructor(send: (message: FromWorker) => void) {
    this.#send = send;
  }

  async listen(address: BindAddress, take: (connection: Socket) => void) {
    const at = `${this.#count++} ${JSON.stringify(address)}`; // several servers may ask for any port
    const port = await new Promise<number>((resolve, reject) => {
      const onBound: Door['onBound'] = (bound) =>
        'port' in bound ? resolve(bound.port) : reject(new Error(bound.message));
      this.#doors.set(at, { take, onBound });
      this.#send({ kind: 'listen', at, address });
    });
    const close = (): void => {
      if (this.#doors.delete(at)) this.#send({ kind: 'leave', at });
    };
    return { port, close };
  }

  bound(message: Extract<ToWorker, { kind: 'bound' }>): void {
    this.#doors.get(message.at)?.onBound(message);
  }

  /** @param connection  absent if the client has closed it */
  connection({ at, number }: Extract<ToWorker, { kind: 'connection' }>, connection: Socket | undefined): void {
    const door = this.#doors.get(at);
    this.#send({ kind: 'answered', number, isTaken: !connection || door !== undefined });
    if (connection && door) door.take(connection);
    else connection?.destroy();
  }
}
