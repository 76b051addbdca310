import type { HeaderField } from '../../../src/h2/http2/hpack/field.ts';

export type Code = 'OK' | 'OVER_LIMIT';
/** Outcome of a call that was not decided, since a decision in time was impossible. */
export type Outcome = Code | 'REFUSED';

const GRPC_PREFIX_BYTES = 5;
/** The tag of RateLimitResponse.overall_code, a varint. */
const OVERALL_CODE_TAG = 0x08;
/** DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and UNAVAILABLE as values of `grpc-status`. */
const refusals: readonly string[] = ['4', '8', '14'];
const codes: readonly (Code | undefined)[] = [undefined, 'OK', 'OVER_LIMIT'];

/** The end of a call. */
interface CallEnd {
  /** All of its DATA: one message, framed for gRPC. */
  readonly data: Buffer | undefined;
  /** Its last header block. */
  readonly trailers: readonly HeaderField[];
  /** Whether calls may be refused; otherwise a refusal is a failure. */
  readonly mayRefuse: boolean;
}

/**
 * The outcome of a call: the overall code of its answer, or REFUSED.
 *
 * @throws  the call failed, or the answer is no valid answer of the service
 */
export function readAnswer({ data, trailers, mayRefuse }: CallEnd): Outcome {
  const status = trailers.find(({ name }) => name === 'grpc-status')?.value;
  if (status && mayRefuse && refusals.includes(status)) return 'REFUSED';
  if (status !== '0') {
    const message = trailers.find(({ name }) => name === 'grpc-message')?.value ?? '';
    throw new Error(`a call must end with grpc-status 0, got ${status ?? 'none'} ${message}`.trimEnd());
  }
  const bytes = data?.length ?? 0;
  if (!data || bytes < GRPC_PREFIX_BYTES || data.readUInt32BE(1) !== bytes - GRPC_PREFIX_BYTES || data[0] !== 0) {
    throw new Error(`a call must be answered with one message that is not compressed, got ${bytes} bytes of data`);
  }
  // All serializers write fields in the order of their numbers, so the code is the first field or absent.
  const number = data[GRPC_PREFIX_BYTES] === OVERALL_CODE_TAG ? (data[GRPC_PREFIX_BYTES + 1] ?? 0) : 0;
  const code = codes[number];
  if (code === undefined)
    throw new Error(`an answer must have the overall code OK (1) or OVER_LIMIT (2), got ${number}`);
  return code;
}
