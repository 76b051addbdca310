import { status } from '../../grpc-status.ts';
import { ownCopy } from '../../own-copy.ts';
import { encodeFields } from '../h2/hpack/encode.ts';
import type { NotGrpc } from './call-head.ts';

/** The header blocks of answers. Most never change, and are encoded once. */

const contentType = ['content-type', 'application/grpc'] as const;

/** The head of every answer that has messages. */
export const HEAD = encodeFields([[':status', '200'], contentType]);

/** The trailers of a successful answer. */
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

/** The trailers of an answer that fails after its head was sent. */
export const failureTrailers = (failure: Failure): Buffer => encodeFields(trailersOf(failure));

/** The head of an answer that fails before any message. */
export const failureHead = (failure: Failure): Buffer =>
  encodeFields([[':status', '200'], contentType, ...acceptedEncodings(failure), ...trailersOf(failure)]);

const refusalHeads = new WeakMap<Failure, Buffer>();

/** As `failureHead`, but encoded once per failure: refusing must be cheap. */
export function refusalHead(refusal: Failure): Buffer {
  const cached = refusalHeads.get(refusal);
  if (cached) return cached;
  const head = failureHead(refusal);
  refusalHeads.set(refusal, head);
  return head;
}

/** Lists the encodings that are supported, for clients that used another one. */
const acceptedEncodings = ({ code }: Failure) =>
  code === status.UNIMPLEMENTED ? ([['grpc-accept-encoding', 'identity,gzip,deflate']] as const) : [];

/** The head of the plain HTTP answer to a request that is not gRPC. */
export function plainHead(problem: NotGrpc | 431): Buffer {
  return encodeFields([
    [':status', String(problem)],
    ['content-type', 'text/plain'],
    ...(problem === 405 ? ([['allow', 'POST']] as const) : []),
  ]);
}

/** Made once, since a connection is charged for the memory of answers that wait for their client. */
export const plainBodies: Readonly<Record<NotGrpc | 431, Uint8Array>> = {
  405: ownCopy(Buffer.from('gRPC calls are POST requests\n')),
  415: ownCopy(Buffer.from('expected content-type application/grpc\n')),
  431: ownCopy(Buffer.from('the header fields are too large\n')),
};

/** Some clients accept at most 8 KiB of trailers in total. */
const MAX_DETAILS_OCTETS = 4_096;

/**
 * Percent-encodes a text for `grpc-message`: space to `~` are left as they are, except `%`, and spaces at either end,
 * which HTTP/2 forbids. A text that is too long is cut between two characters.
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
