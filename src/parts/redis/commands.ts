import { Command, type Redis } from 'ioredis';
import { isReply } from './reason.ts';

/**
 * A command as octets, which are the characters of the text. ioredis would measure and copy every argument several
 * times if one of them is a `Buffer`, and a batch has hundreds.
 *
 * @see https://redis.io/docs/latest/develop/reference/protocol-spec/
 */
function encode(name: string, args: readonly (string | Buffer)[]): string {
  let octets = `*${args.length + 1}\r\n$${name.length}\r\n${name}`;
  let texts = '';
  for (const arg of args) {
    const isText = typeof arg === 'string';
    if (isText) texts += arg;
    octets += `\r\n$${arg.length}\r\n${isText ? arg : arg.toString('latin1')}`;
  }
  if (Buffer.byteLength(texts) === texts.length) return `${octets}\r\n`; // texts of ASCII are their octets
  return encode(
    name,
    args.map((arg) => Buffer.from(arg as string)), // or a buffer
  );
}

/** A command whose texts in the reply are `Buffer`s. */
export class StoreCommand extends Command {
  readonly #slot: number | undefined;

  /** @param slot  of its keys on a Cluster, if it is known */
  constructor(name: string, args: (string | Buffer)[], slot?: number) {
    super(name, [], { replyEncoding: null });
    this.args = args; // set here, since the constructor of ioredis would copy and convert each one
    this.#slot = slot;
  }

  override getSlot(): number {
    return this.#slot ?? super.getSlot();
  }

  override toWritable(): Buffer {
    return Buffer.from(encode(this.name, this.args as (string | Buffer)[]), 'latin1'); // those of the constructor
  }
}

/** Commands that are sent with one write. */
export class Pipeline {
  #octets = '';
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(name: string, ...args: readonly string[]): void {
    this.#octets += encode(name, args);
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
      const command = new PipelineCommand(this.#octets, this.#count, resolve, reject);
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

class PipelineCommand extends Command {
  readonly #octets: string;

  constructor(
    octets: string,
    count: number,
    resolve: (replies: readonly unknown[]) => void,
    reject: (error: unknown) => void,
  ) {
    super('pipeline', [], { replyEncoding: null });
    this.#octets = octets;
    const replies: unknown[] = [];
    this.resolve = (reply: unknown) => {
      if (replies.push(reply) === count) resolve(replies);
    };
    this.reject = (error: unknown) => {
      if (isReply(error)) this.resolve(error);
      else reject(error);
    };
  }

  override toWritable(): Buffer {
    return Buffer.from(this.#octets, 'latin1');
  }
}
