import { Command } from 'ioredis';

const MAX_DIGITS = 10;
const CR = 0x0d;
const LF = 0x0a;
const DOLLAR = 0x24;

/** Octets of an argument besides its own: `$`, its length, and two line ends. */
const FRAME_OCTETS = 1 + MAX_DIGITS + 4;

/**
 * EVALSHA whose reply is a `Buffer`. It is written into one buffer in one pass: ioredis measures and copies every
 * argument several times as soon as one of them is a `Buffer`, and a batch has hundreds.
 *
 * @see https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
export class ScriptCommand extends Command {
  readonly #slot: number | undefined;

  /**
   * @param args  those of EVALSHA: the script's digest, the number of keys, and so on
   * @param slot  of its keys on a Cluster, where it is known
   */
  constructor(args: (string | Buffer)[], slot?: number) {
    super('EVALSHA', [], { replyEncoding: null });
    this.args = args; // set here: the constructor of ioredis would copy and convert each one
    this.#slot = slot;
  }

  override getSlot(): number {
    return this.#slot ?? super.getSlot();
  }

  override toWritable(socket: object): string | Buffer {
    const args = this.args as (string | Buffer)[]; // as the constructor was given them
    let room = 2 * FRAME_OCTETS + this.name.length;
    for (const arg of args) room += FRAME_OCTETS + arg.length;
    const bytes = Buffer.allocUnsafe(room);
    bytes[0] = 0x2a; // *
    let at = writeEnd(bytes, writeNumber(bytes, 1, args.length + 1));
    at = writeText(bytes, at, this.name);
    for (const arg of args) {
      const end = typeof arg === 'string' ? writeText(bytes, at, arg) : writeBytes(bytes, at, arg);
      if (end < 0) return new Command(this.name, args).toWritable(socket);
      at = end;
    }
    return bytes.subarray(0, at);
  }
}

/** @returns where it ends; -1: the text has characters of several octets */
function writeText(bytes: Buffer, start: number, text: string): number {
  const at = writeHead(bytes, start, text.length);
  return bytes.write(text, at, 'utf8') === text.length ? writeEnd(bytes, at + text.length) : -1;
}

function writeBytes(bytes: Buffer, start: number, part: Buffer): number {
  const at = writeHead(bytes, start, part.length);
  bytes.set(part, at);
  return writeEnd(bytes, at + part.length);
}

function writeHead(bytes: Buffer, at: number, length: number): number {
  bytes[at] = DOLLAR;
  return writeEnd(bytes, writeNumber(bytes, at + 1, length));
}

function writeNumber(bytes: Buffer, start: number, number: number): number {
  let end = start + 1;
  for (let left = number; left >= 10; left = Math.floor(left / 10)) end++;
  let left = number;
  for (let at = end - 1; at >= start; at--) {
    bytes[at] = 0x30 + (left % 10);
    left = Math.floor(left / 10);
  }
  return end;
}

function writeEnd(bytes: Buffer, at: number): number {
  bytes[at] = CR;
  bytes[at + 1] = LF;
  return at + 2;
}
