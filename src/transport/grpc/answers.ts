import { status } from '../../grpc-status.ts';
import { encodeFields } from '../h2/hpack/encode.ts';
import type { NoCall } from './call-head.ts';

/** The blocks of header fields that answers are made of. Most are always the same, and made once. */

const contentType = ['content-type', 'application/grpc'] as const;

/** What comes before the messages of every answer. */
export const HEAD = encodeFields([[':status', '200'], contentType]);

/** What comes after them when all went well. */
export const OK_TRAILERS = encodeFields([['grpc-status', String(status.OK)]]);

export interface Failure {
  readonly code: status;
  readonly details: string;
}

const trailersOf = ({ code, details }: Failure) =>
  [
    ['grpc-status', String(code)],
    ['grpc-message', encodeDetails(details)],
  ] as const;

/** What comes after the messages of an answer that fails. */
export const failureTrailers = (failure: Failure): Buffer => encodeFields(trailersOf(failure));

/** An answer that fails before any message. */
export const failureHead = (failure: Failure): Buffer =>
  encodeFields([[':status', '200'], contentType, ...acceptedEncodings(failure), ...trailersOf(failure)]);

/** Who hears that something is not implemented may want to know what is. */
const acceptedEncodings = ({ code }: Failure) =>
  code === status.UNIMPLEMENTED ? ([['grpc-accept-encoding', 'identity,gzip,deflate']] as const) : [];

/** What a client that does not speak gRPC is told, as plain HTTP. */
export function noCallHead(problem: NoCall | 431): Buffer {
  return encodeFields([
    [':status', String(problem)],
    ['content-type', 'text/plain'],
    ...(problem === 405 ? ([['allow', 'POST']] as const) : []),
  ]);
}

export const noCallText: Readonly<Record<NoCall | 431, string>> = {
  405: 'gRPC calls are POST requests\n',
  415: 'here are only gRPC calls: content-type application/grpc\n',
  431: 'the header fields are too large\n',
};

/** What some clients take of all trailers together is 8 KiB. */
const MAX_DETAILS_OCTETS = 4_096;

/**
 * Percent-encodes a text for `grpc-message`: space to `~` stand for themselves, but for `%` and for a space at either end, since HTTP/2 forbids
 * fields that begin or end with one. A text that is too long is cut between two characters.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113#section-8.2.1
 * @see https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
 */
function encodeDetails(details: string): string {
  let encoded = '';
  for (const character of details) {
    const next = isPlain(character) ? character : encodeOctets(Buffer.from(character));
    if (encoded.length + next.length > MAX_DETAILS_OCTETS) break;
    encoded += next;
  }
  const withoutLead = encoded.trimStart();
  const text = withoutLead.trimEnd();
  const blanks = (count: number): string => '%20'.repeat(count);
  return `${blanks(encoded.length - withoutLead.length)}${text}${blanks(withoutLead.length - text.length)}`;
}

const isPlain = (character: string): boolean => character >= ' ' && character <= '~' && character !== '%';

const encodeOctets = (octets: Buffer): string =>
  Array.from(octets, (octet) => `%${octet.toString(16).toUpperCase().padStart(2, '0')}`).join('');
