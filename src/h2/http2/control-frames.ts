import { ErrorCode, type ErrorNumber, Http2Error } from './errors.ts';
import type { Exchanges } from './exchanges.ts';
import { uint31 } from './frame-reader.ts';
import {
  DEFAULT_MAX_FRAME_SIZE,
  DEFAULT_WINDOW,
  Flag,
  FrameType,
  MAX_FRAME_SIZE_LIMIT,
  MAX_WINDOW,
  Setting,
} from './frames.ts';

/** Handles control frames: SETTINGS, PING, WINDOW_UPDATE, RST_STREAM, PRIORITY and GOAWAY (RFC 9113, 6.3 to 6.9). */
export class ControlFrames {
  readonly #exchanges: Exchanges;
  /** Unanswered PING frames by the number in their payload. */
  #pings: Map<number, () => void> | undefined;
  #lastPing = 0;
  /** Whether the client has sent its first SETTINGS. */
  hasSettings = false;

  constructor(exchanges: Exchanges) {
    this.#exchanges = exchanges;
  }

  /** Sends this server's SETTINGS and opens the connection's window. */
  sendPreface(): void {
    const { maxConcurrentStreams, streamWindowBytes, maxHeaderListBytes, connectionWindowBytes } =
      this.#exchanges.limits;
    const settings = [
      [Setting.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
      [Setting.INITIAL_WINDOW_SIZE, streamWindowBytes],
      [Setting.MAX_HEADER_LIST_SIZE, maxHeaderListBytes],
    ] as const;
    const payload = Buffer.alloc(settings.length * 6);
    for (const [at, [id, value]] of settings.entries()) {
      payload.writeUInt16BE(id, at * 6);
      payload.writeUInt32BE(value, at * 6 + 2);
    }
    this.#exchanges.output.frame(FrameType.SETTINGS, 0, 0, payload);
    this.#exchanges.output.numbers(FrameType.WINDOW_UPDATE, 0, 0, connectionWindowBytes - DEFAULT_WINDOW);
  }

  /** @param onPong  called once, when the client has answered */
  ping(onPong: () => void): void {
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(++this.#lastPing, 4);
    this.#pings ??= new Map();
    this.#pings.set(this.#lastPing, onPong);
    this.#exchanges.output.frame(FrameType.PING, 0, 0, payload);
  }

  sendGoaway(lastStreamId: number, code: ErrorNumber, debugData: string): void {
    const payload = Buffer.alloc(8 + debugData.length);
    payload.writeUInt32BE(lastStreamId, 0);
    payload.writeUInt32BE(code, 4);
    payload.write(debugData, 8, 'latin1');
    this.#exchanges.output.frame(FrameType.GOAWAY, 0, 0, payload);
  }

  onFrame(bytes: Buffer, from: number, length: number, type: number, flags: number, streamId: number): void {
    this.#exchanges.spend();
    switch (type) {
      case FrameType.WINDOW_UPDATE:
        return this.#onWindowUpdate(bytes, from, length, streamId);
      case FrameType.SETTINGS:
        return this.#onSettings(bytes, from, length, flags, streamId);
      case FrameType.PING:
        return this.#onPing(bytes, from, length, flags, streamId);
      case FrameType.RST_STREAM:
        return this.#onReset(length, streamId);
      case FrameType.PRIORITY:
        mustBeOnStream('PRIORITY', streamId);
        mustHaveLength('PRIORITY', 5, length);
        if (uint31(bytes, from) === streamId)
          throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'a stream cannot depend on itself');
        return;
      case FrameType.GOAWAY: // the client opens no more streams, and closes when it has received its answers
        mustBeOnConnection('GOAWAY', streamId);
        if (length < 8)
          throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, `GOAWAY must have at least 8 octets, got ${length}`);
        return;
      case FrameType.PUSH_PROMISE:
        throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'clients cannot send PUSH_PROMISE');
    }
  }

  #onWindowUpdate(bytes: Buffer, from: number, length: number, streamId: number): void {
    mustHaveLength('WINDOW_UPDATE', 4, length);
    const increment = uint31(bytes, from);
    if (streamId === 0) {
      if (increment === 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'WINDOW_UPDATE with an increment of 0');
      return this.#exchanges.send.openWindow(increment);
    }
    this.#exchanges.streams.mustNotBeIdle('WINDOW_UPDATE', streamId);
    const stream = this.#exchanges.streams.get(streamId);
    if (!stream) return;
    if (increment === 0)
      this.#exchanges.failStream(stream, ErrorCode.PROTOCOL_ERROR, 'WINDOW_UPDATE with an increment of 0');
    else if (!this.#exchanges.send.openStreamWindow(stream, increment))
      this.#exchanges.failStream(stream, ErrorCode.FLOW_CONTROL_ERROR, 'a window is larger than 2^31-1');
  }

  #onSettings(bytes: Buffer, from: number, length: number, flags: number, streamId: number): void {
    mustBeOnConnection('SETTINGS', streamId);
    if (flags & Flag.ACK) return mustHaveLength('SETTINGS ACK', 0, length);
    if (length % 6 !== 0)
      throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, 'the length of SETTINGS is not a multiple of 6');
    let streamWindow: number | undefined;
    for (let at = from; at < from + length; at += 6) {
      this.#exchanges.spend(); // a frame may hold thousands
      const [id, value] = [bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2)];
      if (id === Setting.INITIAL_WINDOW_SIZE) streamWindow = validWindow(value);
      else this.#set(id, value);
    }
    this.hasSettings = true;
    this.#exchanges.output.numbers(FrameType.SETTINGS, Flag.ACK, 0);
    if (streamWindow !== undefined)
      this.#exchanges.send.setInitialStreamWindow(streamWindow, () => this.#exchanges.spend());
  }

  #set(id: number, value: number): void {
    switch (id) {
      case Setting.HEADER_TABLE_SIZE:
        return this.#exchanges.send.emptyTable();
      case Setting.ENABLE_PUSH:
        if (value > 1) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'ENABLE_PUSH must be 0 or 1');
        return;
      case Setting.MAX_FRAME_SIZE: // this server's frames have the default size at most, which all clients accept
        if (value < DEFAULT_MAX_FRAME_SIZE || value > MAX_FRAME_SIZE_LIMIT)
          throw new Http2Error(ErrorCode.PROTOCOL_ERROR, 'MAX_FRAME_SIZE must be from 2^14 to 2^24-1');
    }
  }

  #onPing(bytes: Buffer, from: number, length: number, flags: number, streamId: number): void {
    mustBeOnConnection('PING', streamId);
    mustHaveLength('PING', 8, length);
    if (!(flags & Flag.ACK))
      return this.#exchanges.output.frame(FrameType.PING, Flag.ACK, 0, bytes, from, from + length);
    const number = bytes.readUInt32BE(from + 4);
    const onPong = this.#pings?.get(number);
    if (!onPong) return;
    onPong();
    this.#pings?.delete(number);
    if (this.#pings?.size === 0) this.#pings = undefined;
  }

  #onReset(length: number, streamId: number): void {
    mustBeOnStream('RST_STREAM', streamId);
    mustHaveLength('RST_STREAM', 4, length);
    this.#exchanges.streams.mustNotBeIdle('RST_STREAM', streamId);
    const stream = this.#exchanges.streams.get(streamId);
    if (!stream) return;
    if (!stream.hasAllOfRequest) this.#exchanges.spend();
    this.#exchanges.remove(stream);
    stream.receiver?.cancelled();
  }
}

/** @throws Http2Error if the frame is on stream 0 */
export function mustBeOnStream(frame: string, streamId: number): void {
  if (streamId === 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on stream 0`);
}

function mustBeOnConnection(frame: string, streamId: number): void {
  if (streamId !== 0) throw new Http2Error(ErrorCode.PROTOCOL_ERROR, `${frame} on a stream`);
}

function mustHaveLength(frame: string, expected: number, length: number): void {
  if (length !== expected)
    throw new Http2Error(ErrorCode.FRAME_SIZE_ERROR, `${frame} must have ${expected} octets, got ${length}`);
}

function validWindow(value: number): number {
  if (value <= MAX_WINDOW) return value;
  throw new Http2Error(ErrorCode.FLOW_CONTROL_ERROR, 'INITIAL_WINDOW_SIZE is larger than 2^31-1');
}
