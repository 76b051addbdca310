import type { HeaderField } from '../../../src/h2/http2/hpack/field.ts';
import { staticTable } from '../../../src/h2/http2/hpack/static-table.ts';

/** A request's header block: the first on a connection, and all later ones. */
export interface RequestHeaders {
  readonly first: Buffer;
  readonly later: Buffer;
}

/**
 * Puts all fields into the server's dynamic table, as gRPC clients and Envoy do: later requests refer to them with an
 * octet each.
 *
 * @param fields  at most 126 ASCII characters each, few enough for a table of the default size
 * @see https://www.rfc-editor.org/rfc/rfc7541#section-6.2.1
 */
export function encodeRequestHeaders(fields: readonly Pick<HeaderField, 'name' | 'value'>[]): RequestHeaders {
  const newestIndex = staticTable.length + 1;
  return {
    first: Buffer.concat(fields.map(({ name, value }) => Buffer.concat([Buffer.of(0x40), sized(name), sized(value)]))),
    later: Buffer.from(fields.map((_, at) => 0x80 | (newestIndex + fields.length - 1 - at))),
  };
}

const sized = (text: string): Buffer => Buffer.from(`${String.fromCharCode(text.length)}${text}`, 'latin1');
