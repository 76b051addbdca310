/**
 * The status codes of gRPC, so that answering does not require a gRPC library.
 *
 * @see https://grpc.github.io/grpc/core/md_doc_statuscodes.html
 */
export const status = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

export type status = (typeof status)[keyof typeof status];

/** Ends a call with this status. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: status;

  /** @param message  sent to the caller */
  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}
