import type { HeaderField } from '../../src/transport/h2/hpack/field.ts';

export type Code = 'OK' | 'OVER_LIMIT';
/** REFUSED: not decided, since that could not be done in time. */
export type Outcome = Code | 'REFUSED';

const GRPC_PREFIX_BYTES = 5;
/** RateLimitResponse.overall_code, a varint. */
const OVERALL_CODE_TAG = 0x08;
/** RESOURCE_EXHAUSTED and UNAVAILABLE as `grpc-status` has them. */
const refusals: readonly string[] = ['8', '14'];
const codes: readonly (Code | undefined)[] = [undefined, 'OK', 'OVER_LIMIT'];

/**
 * The overall code of a call's answer, or that it was refused.
 *
 * @param data     all of its DATA: one message as gRPC frames it
 * @param trailers  its last header block
 * @throws  the call failed, or the answer is not one of the service
 */
export function readAnswer(data: Buffer | undefined, trailers: readonly HeaderField[]): Outcome {
  const status = trailers.find(({ name }) => name === 'grpc-status')?.value;
  if (status && refusals.includes(status)) return 'REFUSED';
  if (status !== '0') {
    const message = trailers.find(({ name }) => name === 'grpc-message')?.value ?? '';
    throw new Error(`a call must end with grpc-status 0, got ${status ?? 'none'} ${message}`.trimEnd());
  }
  const bytes = data?.length ?? 0;
  if (!data || bytes < GRPC_PREFIX_BYTES || data.readUInt32BE(1) !== bytes - GRPC_PREFIX_BYTES || data[0] !== 0) {
    throw new Error(`a call must be answered with one message that is not compressed, got ${bytes} bytes of data`);
  }
  // Fields come in the order of their numbers, from every serializer there is: the code is the first or is absent.
  const number = data[GRPC_PREFIX_BYTES] === OVERALL_CODE_TAG ? (data[GRPC_PREFIX_BYTES + 1] ?? 0) : 0;
  const code = codes[number];
  if (code === undefined)
    throw new Error(`an answer must have the overall code OK (1) or OVER_LIMIT (2), got ${number}`);
  return code;
}
