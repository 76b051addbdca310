import { ownCopy } from '../bounds/own-copy.ts';
import { encodeFields } from '../http2/hpack/encode.ts';
import type { NotGrpc } from './call-head.ts';
import { status } from './grpc-status.ts';

/** Header blocks of answers, most of them constant and encoded once. */

const contentType = ['content-type', 'application/grpc'] as const;

/** The head of every answer that has messages. */
export const HEAD = encodeFields([[':status', '200'], contentType]);

export const OK_TRAILERS = encodeFields([['grpc-status', String(status.OK)]]);

export interface Failure {
  readonly code: status;
  readonly details: string;
}

export const tooLate: Failure = { code: status.DEADLINE_EXCEEDED, details: 'Deadline exceeded' };

const statusFields = ({ code, details }: Failure) =>
  [
    ['grpc-status', String(code)],
    ['grpc-message', encodeDetails(details)],
  ] as const;

/** The trailers of an answer that fails after its head was sent. */
export const failureTrailers = (failure: Failure): Buffer => encodeFields(statusFields(failure));

export const failureHead = (failure: Failure): Buffer =>
  encodeFields([[':status', '200'], contentType, ...acceptedEncodings(failure), ...statusFields(failure)]);

const refusalHeads = new WeakMap<Failure, Buffer>();

/** Like `failureHead`, but encoded once per failure: refusing must be cheap. */
export function refusalHead(refusal: Failure): Buffer {
  const cached = refusalHeads.get(refusal);
  if (cached) return cached;
  const head = failureHead(refusal);
  refusalHeads.set(refusal, head);
  return head;
}

/** Lists the supported encodings for clients that used another one. */
const acceptedEncodings = ({ code }: Failure) =>
  code === status.UNIMPLEMENTED ? ([['grpc-accept-encoding', 'identity,gzip,deflate']] as const) : [];

const plainAnswer = (problem: NotGrpc | 431, text: string, more: readonly (readonly [string, string])[] = []) => ({
  head: encodeFields([[':status', String(problem)], ['content-type', 'text/plain'], ...more]),
  body: ownCopy(Buffer.from(`${text}\n`)),
});

/** The plain HTTP answers to requests that are not gRPC; shared, so that unread ones do not multiply their memory. */
export const plainAnswers: Readonly<Record<NotGrpc | 431, ReturnType<typeof plainAnswer>>> = {
  405: plainAnswer(405, 'gRPC calls are POST requests', [['allow', 'POST']]),
  415: plainAnswer(415, 'expected content-type application/grpc'),
  431: plainAnswer(431, 'the header fields are too large'),
};

const MAX_ECHOED_CHARACTERS = 100;

/** A caller's text, shortened for the details of a failure: 13 octets of HPACK can repeat kilobytes per request. */
export const echoed = (text: string): string =>
  text.length > MAX_ECHOED_CHARACTERS ? `${text.slice(0, MAX_ECHOED_CHARACTERS)}...` : text;

/** Maximum size of encoded details, as some clients accept only 8 KiB of trailers. */
const MAX_DETAILS_OCTETS = 4_096;
/** Maximum octets of an encoded UTF-16 unit. */
const OCTETS_PER_UNIT = 9;

/**
 * Percent-encodes a text for `grpc-message`, leaving space to `~` unchanged except for `%` and for spaces at either
 * end, which HTTP/2 forbids. A text that is too long is cut between two characters.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113#section-8.2.1
 * @see https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
 */
function encodeDetails(details: string): string {
  const isShort = details.length * OCTETS_PER_UNIT <= MAX_DETAILS_OCTETS;
  const encoded = isShort ? percentEncoded(details) : cutAndEncoded(details);
  const withoutLead = encoded.trimStart();
  const text = withoutLead.trimEnd();
  const blanks = (count: number): string => '%20'.repeat(count);
  return `${blanks(encoded.length - withoutLead.length)}${text}${blanks(withoutLead.length - text.length)}`;
}

function cutAndEncoded(details: string): string {
  let encoded = '';
  for (const character of details) {
    const next = percentEncoded(character);
    if (encoded.length + next.length > MAX_DETAILS_OCTETS) break;
    encoded += next;
  }
  return encoded;
}

const percentEncoded = (text: string): string =>
  text.replace(/[^ -$&-~]+/g, (run) => Buffer.from(run).toString('hex').toUpperCase().replace(/../g, '%$&'));
