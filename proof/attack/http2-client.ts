import { ErrorCode } from '../../src/h2/http2/errors.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE, Setting } from '../../src/h2/http2/frames.ts';
import { data, frame, settings, windowUpdate } from '../../test/helpers/h2-client.ts';
import type { TcpClient } from './tcp-client.ts';

export interface Http2Options {
  /** The contents of its first SETTINGS. */
  readonly settings?: readonly (readonly [id: number, value: number])[];
  /**
   * Whether to grant no window beyond the initial 65,535 bytes. Default: the connection's window is as large as
   * possible.
   */
  readonly withholdsWindow?: boolean;
  /** Called with each frame of the server, in addition to the client's own handling. */
  readonly onFrame?: (type: number, flags: number, streamId: number, payload: Buffer) => void;
}

const MAX_DATA_BYTES = 16_384;
const DEFAULT_WINDOW = 65_535;
const LARGEST_INCREMENT = 2 ** 31 - 1 - DEFAULT_WINDOW;

/**
 * An HTTP/2 client that respects the server's windows and answers pings and settings, and otherwise sends given bytes.
 */
export class Http2Client {
  readonly tcp: TcpClient;
  readonly #onFrame: Http2Options['onFrame'];
  /** The number of streams that have ended, with an answer or a reset. */
  ended = 0;
  /** The number of streams that the server has reset. */
  resets = 0;
  #nextStreamId = 1;
  #window = DEFAULT_WINDOW;
  #streamWindow = DEFAULT_WINDOW;
  readonly #streamWindows = new Map<number, number>();
  #rest = Buffer.alloc(0);
  #hasSettings = false;
  #waiting: (() => void)[] = [];

  constructor(tcp: TcpClient, options: Http2Options) {
    this.tcp = tcp;
    this.#onFrame = options.onFrame;
    tcp.closed.then(() => this.#wake());
  }

  /** The number of streams taken so far. */
  get begun(): number {
    return (this.#nextStreamId - 1) / 2;
  }

  get isClosed(): boolean {
    return this.tcp.isClosed;
  }

  /** Sends the preface and waits for the server's SETTINGS. */
  async greet({ settings: pairs = [], withholdsWindow = false }: Http2Options): Promise<void> {
    await this.tcp.opened();
    const window = withholdsWindow ? [] : [windowUpdate(0, LARGEST_INCREMENT)];
    await this.tcp.send(Buffer.concat([PREFACE, settings(...pairs), ...window]));
    while (!this.#hasSettings && !this.isClosed) await this.#change();
  }

  /** Takes `count` streams. @returns the id of the first; the others follow in steps of two */
  takeStreams(count: number): number {
    const first = this.#nextStreamId;
    this.#nextStreamId += count * 2;
    return first;
  }

  /**
   * Sends complete frames. Resolves when the operating system has accepted them.
   *
   * @param flowBytes  bytes of the connection's window that they use; waits until there are as many
   * @returns false if the connection has ended
   */
  async send(bytes: Uint8Array, flowBytes = 0): Promise<boolean> {
    while (this.#window < flowBytes && !this.isClosed) await this.#change();
    this.#window -= flowBytes;
    return this.tcp.send(bytes);
  }

  /** Sends the body of a stream, in the largest frames that the windows allow. */
  async sendBody(streamId: number, body: Buffer, isEnd: boolean): Promise<boolean> {
    this.#streamWindows.set(streamId, this.#streamWindow);
    for (let at = 0; at < body.length; ) {
      const room = Math.min(this.#window, this.#streamWindows.get(streamId) ?? 0, MAX_DATA_BYTES);
      const isWhole = body.length - at <= room;
      if (room <= 0 || (room < MAX_DATA_BYTES && !isWhole)) {
        if (this.isClosed) return false;
        await this.#change();
        continue;
      }
      const part = body.subarray(at, at + room);
      at += part.length;
      this.#streamWindows.set(streamId, (this.#streamWindows.get(streamId) ?? 0) - part.length);
      if (!(await this.send(data(streamId, part, isEnd && at === body.length), part.length))) return false;
    }
    this.#streamWindows.delete(streamId);
    return true;
  }

  /** Resolves when this number of streams has ended, or the connection has. */
  async untilEnded(count: number): Promise<void> {
    while (this.ended < count && !this.isClosed) await this.#change();
  }

  /** Handles received bytes. */
  readonly read = (chunk: Buffer): void => {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    let at = 0;
    while (bytes.length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      this.#take(bytes, at, end);
      at = end;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    this.#wake();
  };

  #take(bytes: Buffer, at: number, end: number): void {
    const type = bytes[at + 3] ?? 0;
    const flags = bytes[at + 4] ?? 0;
    const streamId = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
    const payload = bytes.subarray(at + FRAME_HEADER_BYTES, end);
    if (type === FrameType.WINDOW_UPDATE) this.#grow(streamId, payload.readUInt32BE());
    else if (type === FrameType.SETTINGS && !(flags & Flag.ACK)) this.#set(payload);
    else if (type === FrameType.PING && !(flags & Flag.ACK))
      void this.tcp.send(frame(FrameType.PING, Flag.ACK, 0, Buffer.from(payload)));
    else if (type === FrameType.RST_STREAM) {
      this.resets++;
      if (payload.readUInt32BE(0) !== ErrorCode.NO_ERROR) this.ended++; // a reset with NO_ERROR follows an answer
    } else if ((type === FrameType.HEADERS || type === FrameType.DATA) && flags & Flag.END_STREAM) this.ended++;
    this.#onFrame?.(type, flags, streamId, payload);
  }

  #grow(streamId: number, increment: number): void {
    if (streamId === 0) this.#window += increment;
    const window = this.#streamWindows.get(streamId);
    if (window !== undefined) this.#streamWindows.set(streamId, window + increment);
  }

  #set(payload: Buffer): void {
    for (let at = 0; at + 6 <= payload.length; at += 6)
      if (payload.readUInt16BE(at) === Setting.INITIAL_WINDOW_SIZE) this.#streamWindow = payload.readUInt32BE(at + 2);
    this.#hasSettings = true;
    void this.tcp.send(frame(FrameType.SETTINGS, Flag.ACK, 0));
  }

  /** Resolves when the server has sent something or the connection has ended. */
  #change(): Promise<void> {
    return new Promise((resolve) => {
      if (this.isClosed) resolve();
      else this.#waiting.push(resolve);
    });
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) resume();
  }
}
