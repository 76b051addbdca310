import { inOnePiece } from '../../../engine/backends/key.ts';
import { decodeRequest } from '../../../engine/wire/codec.ts';
import { maximumRequest, type WireDescriptor } from '../../../engine/wire/wire.ts';
import type { RecordedRequest } from '../request.ts';

const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;

/**
 * Parses the usual form of recorded requests: descriptors with plain entries, texts without escapes. JSON.parse takes
 * several times as long for these few texts.
 */
export class PlainRequests {
  #line = '';
  #at = 0;

  /**
   * The request at the start of the line. Undefined: it must be parsed as JSON.
   *
   * @param end  the index at which the request ends
   */
  read(line: string, end: number): RecordedRequest['request'] | undefined {
    this.#line = line;
    this.#at = 0;
    const domain = this.#takes('{"domain":"') ? this.#text() : undefined;
    if (domain === undefined || !this.#takes(',"descriptors":[')) return undefined;
    const descriptors: WireDescriptor[] = [];
    do {
      const entries = this.#entries();
      if (!entries || descriptors.length >= maximumRequest.descriptors) return undefined;
      descriptors.push({ entries, limit: null, hits_addend: null, is_negative_hits: false });
    } while (this.#takes(','));
    if (!this.#takes(']') || this.#at !== end) return undefined;
    return decodeRequest({ domain, descriptors, hits_addend: 0 });
  }

  #entries(): WireDescriptor['entries'] | undefined {
    if (!this.#takes('{"entries":[')) return undefined;
    const entries: { readonly key: string; readonly value: string }[] = [];
    do {
      const key = this.#takes('{"key":"') ? this.#text() : undefined;
      const value = key !== undefined && this.#takes(',"value":"') ? this.#text() : undefined;
      if (key === undefined || value === undefined || !this.#takes('}')) return undefined;
      if (entries.length >= maximumRequest.entries) return undefined;
      entries.push({ key, value });
    } while (this.#takes(','));
    return this.#takes(']}') ? entries : undefined;
  }

  #takes(token: string): boolean {
    if (!this.#line.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  /** Reads up to the next quote, and skips the quote. */
  #text(): string | undefined {
    const line = this.#line;
    const start = this.#at;
    let end = start;
    for (let code = line.charCodeAt(end); code !== QUOTE; code = line.charCodeAt(++end))
      if (!(code >= SPACE) || code === BACKSLASH) return undefined; // NaN at the end
    this.#at = end + 1;
    // a slice of a line would keep the whole chunk alive
    return end - start > maximumRequest.textLength ? undefined : inOnePiece(line.slice(start, end));
  }
}
