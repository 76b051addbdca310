import { IncomingMessage } from 'node:http';

/** A connection that sends more than this of one body ends: neither reading nor discarding goes on without bound. */
const MAX_DRAINED_BYTES = 4 * 1024 * 1024;

/**
 * What an octet of a body costs while it is read and decoded: the buffer, which doubles as it grows, and the decoded texts, which may take two bytes a
 * character.
 */
const BODY_FACTOR = 4;

/** What a request costs from its head until its response is closed: Node's objects for both, and a share of the socket's buffers. */
const REQUEST_BYTES = 8 * 1024;
const HEADER_BYTES = 128;

/** The connection ended before the request was answered: there is nothing to do for it any more. */
export class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

/**
 * A request, from its head until its response is closed. Its body is taken off the connection from the beginning: `readBody` keeps it, else it is
 * discarded, so that it neither waits in memory nor blocks the requests behind it.
 */
export class HttpRequest extends IncomingMessage {
  /** The body did not end within `MAX_DRAINED_BYTES`: the connection cannot be used after the response. */
  isEndless = false;
  #hold: ((bytes: number) => void) | undefined;
  #headBytes = 0;
  #heldBytes = 0;
  #goneListeners: (() => void)[] = [];
  #isGone = false;
  #receivedBytes = 0;
  #body: BodyBuffer | undefined;

  /**
   * Begins to charge for the request and to take its body.
   *
   * @param hold  adds bytes to what the connection holds, or takes them off
   */
  open(hold: (bytes: number) => void): void {
    this.#hold = hold;
    this.#headBytes = headBytes(this);
    this.charge(0);
    this.on('data', this.#receive).once('end', () => this.#endBody());
  }

  /** Nothing is held for the request any more. Where its response was not sent, the caller has gone. */
  close(isSent: boolean): void {
    if (!this.#hold) return;
    this.#hold(-this.#heldBytes);
    this.#hold = undefined;
    const listeners = this.#goneListeners;
    this.#goneListeners = [];
    if (isSent) return;
    this.#isGone = true;
    this.#body?.fail(new CallerGone('the caller has gone'));
    this.#body = undefined;
    for (const listener of listeners) listener();
  }

  /** Sets what the request makes the process hold besides its head: its body, what was made of it, then the response. */
  charge(bytes: number): void {
    if (!this.#hold) return;
    const heldBytes = this.#headBytes + bytes;
    const difference = heldBytes - this.#heldBytes;
    this.#heldBytes = heldBytes;
    this.#hold(difference);
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Calls the listener once when the connection ends before the response was sent; at once where it has ended already. */
  onGone(listener: () => void): void {
    if (this.#isGone) listener();
    else this.#goneListeners.push(listener);
  }

  /**
   * Reads the body. To be called before the first `await`, since a body that is not read is discarded.
   *
   * @returns undefined   it is longer than `maxBytes`
   * @throws CallerGone   the connection ended before the body did
   */
  readBody(maxBytes: number): Promise<Buffer | undefined> {
    return new Promise((done, fail) => {
      this.#body = new BodyBuffer(maxBytes, done, fail);
    });
  }

  readonly #receive = (chunk: Buffer): void => {
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > MAX_DRAINED_BYTES) return this.#giveUp();
    if (!this.#body) return;
    this.#body.push(chunk);
    this.charge(this.#body.length * BODY_FACTOR);
  };

  #giveUp(): void {
    if (this.isEndless) return; // the response is on its way, and the connection ends with it
    this.isEndless = true;
    if (this.#body) this.#endBody();
    else this.socket.destroy();
  }

  #endBody(): void {
    const body = this.#body;
    this.#body = undefined;
    body?.end();
  }
}

/** The memory of a request without its body: Node keeps its headers twice, as they came and by name. */
function headBytes({ url = '', rawHeaders }: IncomingMessage): number {
  let length = url.length;
  for (const text of rawHeaders) length += text.length;
  return REQUEST_BYTES + 2 * length + (rawHeaders.length / 2) * HEADER_BYTES;
}

/** A body as far as it has come. Pieces are copied together: a sender may cut a body into millions of them. */
class BodyBuffer {
  readonly #maxBytes: number;
  readonly #done: (body: Buffer | undefined) => void;
  readonly fail: (reason: CallerGone) => void;
  #bytes: Buffer | undefined;
  #isTooLong = false;
  length = 0;

  constructor(maxBytes: number, done: (body: Buffer | undefined) => void, fail: (reason: CallerGone) => void) {
    this.#maxBytes = maxBytes;
    this.#done = done;
    this.fail = fail;
  }

  push(chunk: Buffer): void {
    const needed = this.length + chunk.length;
    if (this.#isTooLong || needed > this.#maxBytes) {
      this.#isTooLong = true;
      this.#bytes = undefined;
      this.length = 0;
      return;
    }
    if (!this.#bytes) this.#bytes = chunk;
    else {
      if (needed > this.#bytes.length) {
        const larger = Buffer.allocUnsafe(Math.min(Math.max(needed, this.#bytes.length * 2), this.#maxBytes));
        this.#bytes.copy(larger, 0, 0, this.length);
        this.#bytes = larger;
      }
      chunk.copy(this.#bytes, this.length);
    }
    this.length = needed;
  }

  end(): void {
    this.#done(this.#isTooLong ? undefined : (this.#bytes ?? Buffer.alloc(0)).subarray(0, this.length));
  }
}
