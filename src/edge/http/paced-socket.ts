import { Socket } from 'node:net';
import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { takeOver } from '../../h2/listen/taken-socket.ts';
import type { InputTurns } from './input-turns.ts';

/** The size of a read. Small, since a read is handled whole, and kept if its turn has not come. */
const READ_BYTES = 4_096;
const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/** A connection's socket whose input may have to wait. */
export interface PacedSocket extends Socket {
  /** Input, read or not, waits for its turn. Absent: it never waits. */
  readonly waitsForTurn?: () => boolean;
}

/**
 * Takes over a connection that a server has accepted with `pauseOnConnect`, so that its input is handled only while a
 * turn has room. Other input stays in the kernel, except for one read.
 *
 * Node's HTTP server resumes a socket whenever it takes a piece of a body: until its turn, the socket only notes that.
 *
 * @returns a socket whose chunks are valid only during their 'data' event; `accepted` itself, resumed, if this
 *   version of Node keeps its handle elsewhere
 */
export function pacedSocket(accepted: Socket, turns: InputTurns): PacedSocket {
  let kept: Buffer | undefined;
  let isWaiting = false;
  let isPaused = false;

  const callback = (length: number): boolean => {
    if (!turns.hasRoom || isWaiting) {
      const read = shared.subarray(0, length);
      kept = ownCopy(kept ? Buffer.concat([kept, read]) : read);
    } else {
      handle(shared.subarray(0, length));
      if (turns.hasRoom) return true;
    }
    waitForTurn();
    return false;
  };
  const socket = takeOver(accepted, { buffer: shared, callback });
  if (!socket) return accepted.resume();

  const handle = (bytes: Buffer): void => {
    turns.spend(bytes.length);
    socket.emit('data', bytes);
  };
  const waitForTurn = (): void => {
    if (isWaiting) return;
    isWaiting = true;
    turns.wait(proceed);
  };
  const proceed = (): void => {
    isWaiting = false;
    if (socket.destroyed || isPaused) return;
    const bytes = kept;
    kept = undefined;
    if (bytes) handle(bytes);
    if (isPaused || socket.destroyed) return;
    if (turns.hasRoom) Socket.prototype.resume.call(socket);
    else waitForTurn();
  };
  return Object.assign(socket, {
    waitsForTurn: () => isWaiting,
    pause(): Socket {
      isPaused = true;
      return Socket.prototype.pause.call(socket);
    },
    resume(): Socket {
      isPaused = false;
      if (kept) waitForTurn();
      return isWaiting ? socket : Socket.prototype.resume.call(socket);
    },
  });
}
