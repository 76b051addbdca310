import type { Item } from '../cas.ts';

/** A server's reply to one command: a word or a number, or items by key. */
export type MemcachedReply = string | ReadonlyMap<string, Item>;

/** The server violates the protocol: its further output cannot be trusted. */
export class BrokenProtocol extends Error {
  override readonly name = 'BrokenProtocol';
}

/** No valid reply has longer lines or values, which servers refuse. */
const MAX_LINE_BYTES = 2_048;
const MAX_VALUE_BYTES = 1_024 * 1_024;

const END_OF_LINE = '\r\n';

/**
 * Reads replies of memcached's text protocol from chunks of any size.
 *
 * @see https://github.com/memcached/memcached/blob/master/doc/protocol.txt
 */
export class ReplyReader {
  private rest: Buffer = Buffer.alloc(0);
  private items: Map<string, Item> | undefined;

  /**
   * The replies that this chunk completes.
   *
   * @throws BrokenProtocol  the input is not a reply
   */
  read(piece: Buffer): MemcachedReply[] {
    this.rest = this.rest.length === 0 ? piece : Buffer.concat([this.rest, piece]);
    const replies: MemcachedReply[] = [];
    for (;;) {
      const reply = this.next();
      if (reply === undefined) return replies;
      if (reply !== MORE_ITEMS) replies.push(reply);
    }
  }

  private next(): MemcachedReply | typeof MORE_ITEMS | undefined {
    const end = this.rest.indexOf(END_OF_LINE);
    if (end < 0 ? this.rest.length > MAX_LINE_BYTES : end > MAX_LINE_BYTES)
      throw new BrokenProtocol(`a reply's line has more than ${MAX_LINE_BYTES} bytes`);
    if (end < 0) return undefined;
    const line = this.rest.toString('utf8', 0, end);
    const after = end + END_OF_LINE.length;
    if (line.startsWith('VALUE ')) return this.item(line, after);
    this.rest = this.rest.subarray(after);
    if (line !== 'END') {
      if (this.items && !isError(line)) throw new BrokenProtocol(`unexpected '${line}' between items`);
      this.items = undefined;
      return line;
    }
    const items = this.items ?? new Map<string, Item>();
    this.items = undefined;
    return items;
  }

  private item(line: string, from: number): typeof MORE_ITEMS | undefined {
    const [, key = '', bytes, cas = ''] = /^VALUE ([^ ]+) \d+ (\d{1,8})(?: (\d+))?$/.exec(line) ?? [];
    const length = Number(bytes);
    if (!(length <= MAX_VALUE_BYTES)) throw new BrokenProtocol(`'${line}' is not an item`);
    const end = from + length;
    if (this.rest.length < end + END_OF_LINE.length) return undefined;
    if (this.rest.toString('latin1', end, end + END_OF_LINE.length) !== END_OF_LINE)
      throw new BrokenProtocol(`the value of ${key} does not end where it should`);
    this.items ??= new Map();
    this.items.set(key, { value: Buffer.from(this.rest.subarray(from, end)), cas });
    this.rest = this.rest.subarray(end + END_OF_LINE.length);
    return MORE_ITEMS;
  }
}

const MORE_ITEMS = Symbol('an item, of which more may come');

/** Whether the reply is an error. */
export const isError = (line: string): boolean => /^(ERROR|(CLIENT|SERVER)_ERROR( .*)?)$/.test(line);
