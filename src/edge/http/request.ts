import { IncomingMessage } from 'node:http';
import { JoinedParts } from '../../h2/bounds/spare-buffers.ts';
import { CHUNK_UNITS, type InputTurns } from './input-turns.ts';

/** Maximum body that is discarded; a longer one ends the connection. */
const MAX_DRAINED_BYTES = 4 * 1024 * 1024;

/** Memory per octet of a body read and decoded: a buffer that doubles, and strings of up to two bytes a character. */
const BODY_FACTOR = 4;

/** Memory of a request until its response is closed, for Node's objects and a part of the socket's buffers. */
const REQUEST_BYTES = 8 * 1024;
const HEADER_BYTES = 128;

/** Signals that the connection ended before the request was answered. */
export class CallerDisconnected extends Error {
  override readonly name = 'CallerDisconnected';
}

/** A body that is being read. Its chunks are copied into one buffer, as a client may send millions of tiny ones. */
interface PartialBody {
  readonly maxBytes: number;
  readonly done: (body: Buffer | undefined) => void;
  readonly fail: (reason: CallerDisconnected) => void;
  readonly parts: JoinedParts;
  isTooLong: boolean;
}

/**
 * A request, from its head until its response is closed. Its body is consumed from the start. `readBody` keeps it;
 * otherwise it is discarded, so that it neither stays in memory nor blocks the requests behind it.
 */
export class HttpRequest extends IncomingMessage {
  /** Whether the body exceeds `MAX_DRAINED_BYTES`, so that the connection cannot be reused after the response. */
  isEndless = false;
  #chargeConnection: ((bytes: number) => void) | undefined;
  #turns: InputTurns | undefined;
  #headBytes = 0;
  #heldBytes = 0;
  #goneListeners: (() => void)[] = [];
  #isFirst = false;
  #onFirst: (() => void) | undefined;
  #isGone = false;
  #receivedBytes = 0;
  #body: PartialBody | undefined;

  /**
   * Starts to charge for the request and to consume its body.
   *
   * @param chargeConnection  charges bytes to the connection, or releases negative ones
   * @param turns             charged with the work for the body, if input is paced
   */
  open(chargeConnection: (bytes: number) => void, turns: InputTurns | undefined): void {
    this.#chargeConnection = chargeConnection;
    this.#turns = turns;
    this.url = this.url?.replace(/^https?:\/\/[^/?]*\/?/i, '/'); // absolute form (RFC 9112, 3.2.2)
    this.#headBytes = headBytes(this);
    this.charge(0);
    this.on('data', this.#receive).once('end', () => this.#endBody());
  }

  /** Releases the request's memory. If its response was not sent, the caller has disconnected. */
  close(isSent: boolean): void {
    if (!this.#chargeConnection) return;
    this.#chargeConnection(-this.#heldBytes);
    this.#chargeConnection = undefined;
    const listeners = this.#goneListeners;
    this.#goneListeners = [];
    if (isSent) return;
    this.#isGone = true;
    this.#body?.fail(new CallerDisconnected('the caller disconnected'));
    this.#body = undefined;
    for (const listener of listeners) listener();
  }

  /** Called when all earlier requests on the connection have been answered. */
  markFirst(): void {
    this.#isFirst = true;
    this.#onFirst?.();
  }

  /**
   * Resolves when all earlier requests on the connection have been answered, so that a connection has only one answer
   * in progress.
   *
   * @throws CallerDisconnected if the connection ends first
   */
  whenFirst(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isFirst && !this.#isGone) return resolve();
      this.#onFirst = resolve;
      this.onGone(() => reject(new CallerDisconnected('the caller disconnected')));
    });
  }

  /** Sets the memory held for the request besides its head: for body and decoded request, then for the response. */
  charge(bytes: number): void {
    if (!this.#chargeConnection) return;
    const heldBytes = this.#headBytes + bytes;
    const difference = heldBytes - this.#heldBytes;
    this.#heldBytes = heldBytes;
    this.#chargeConnection(difference);
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Calls the listener once if the connection ends before the response was sent, or immediately if it already has. */
  onGone(listener: () => void): void {
    if (this.#isGone) listener();
    else this.#goneListeners.push(listener);
  }

  /**
   * Reads the body. Call it before the first `await`, since an unread body is discarded.
   *
   * @returns undefined if the body is longer than `maxBytes`
   * @throws CallerDisconnected if the connection ends before the body does
   */
  readBody(maxBytes: number): Promise<Buffer | undefined> {
    return new Promise((done, fail) => {
      this.#body = { maxBytes, done, fail, parts: new JoinedParts(), isTooLong: false };
    });
  }

  readonly #receive = (chunk: Buffer): void => {
    this.#turns?.spend(CHUNK_UNITS);
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > MAX_DRAINED_BYTES) return this.#abandonBody();
    const body = this.#body;
    if (!body) return;
    body.isTooLong ||= body.parts.length + chunk.length > body.maxBytes;
    if (body.isTooLong) body.parts.release();
    else body.parts.add(chunk, 0, chunk.length, body.maxBytes);
    this.charge(body.parts.length * BODY_FACTOR);
  };

  #abandonBody(): void {
    if (this.isEndless) return; // the response is in progress, and ends the connection
    this.isEndless = true;
    if (this.#body) this.#endBody();
    else this.socket.destroy();
  }

  #endBody(): void {
    const body = this.#body;
    this.#body = undefined;
    if (!body) return;
    const { bytes, length } = body.parts;
    this.#turns?.spend(length); // it is decoded next
    body.done(body.isTooLong ? undefined : bytes.subarray(0, length));
  }
}

/** Memory of a request without its body, whose headers Node keeps twice, raw and by name. */
function headBytes({ url = '', rawHeaders }: IncomingMessage): number {
  let length = url.length;
  for (const text of rawHeaders) length += text.length;
  return REQUEST_BYTES + 2 * length + (rawHeaders.length / 2) * HEADER_BYTES;
}
