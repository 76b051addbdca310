import type { Redis } from 'ioredis';
import { StoreCommand } from './script.ts';

/** Commands that are sent with one write. */
export class Pipeline {
  #text = '';
  #encoding: BufferEncoding = 'latin1'; // faster, for texts of ASCII
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** @see https://redis.io/docs/latest/develop/reference/protocol-spec/ */
  add(name: string, ...args: readonly string[]): void {
    this.#text += `*${args.length + 1}\r\n$${name.length}\r\n${name}`;
    for (const arg of args) {
      const octets = Buffer.byteLength(arg);
      if (octets !== arg.length) this.#encoding = 'utf8';
      this.#text += `\r\n$${octets}\r\n${arg}`;
    }
    this.#text += '\r\n';
    this.#count++;
  }

  /**
   * ioredis gets one command for all, whose replies it delivers one by one: a command of its own for each would cost this
   * process several times as much as Redis needs to run them.
   *
   * @returns  a reply for each command, whose texts are `Buffer`s; an error if Redis refused to run the command
   * @throws   the connection's error: commands may have run
   */
  send(redis: Redis): Promise<readonly unknown[]> {
    if (this.#count === 0) return Promise.resolve([]); // no reply would come
    return new Promise((resolve, reject) => {
      const command = new PipelineCommand(Buffer.from(this.#text, this.#encoding), this.#count, resolve, reject);
      const { commandQueue, condition } = redis as unknown as Internals;
      const queued = commandQueue.length;
      redis.sendCommand(command);
      const isWritten = commandQueue.length > queued;
      const item = { command, select: condition?.select ?? 0 };
      for (let at = 1; isWritten && at < this.#count; at++) commandQueue.push(item);
    });
  }
}

/** What ioredis keeps of a command until its reply; private in its types. */
interface Internals {
  readonly commandQueue: {
    readonly length: number;
    push(item: { readonly command: PipelineCommand; readonly select: number }): void;
  };
  readonly condition: { readonly select: number } | null;
}

/** Whether Redis refused to run a command, and so has not run it. */
const isRefused = (error: unknown): error is Error => error instanceof Error && error.name === 'ReplyError';

class PipelineCommand extends StoreCommand {
  readonly #octets: Buffer;

  constructor(
    octets: Buffer,
    count: number,
    resolve: (replies: readonly unknown[]) => void,
    reject: (error: unknown) => void,
  ) {
    super('pipeline', []);
    this.#octets = octets;
    const replies: unknown[] = [];
    this.resolve = (reply: unknown) => {
      if (replies.push(reply) === count) resolve(replies);
    };
    this.reject = (error: unknown) => {
      if (isRefused(error)) this.resolve(error);
      else reject(error);
    };
  }

  override toWritable(): Buffer {
    return this.#octets;
  }
}
