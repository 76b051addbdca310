import type { status } from '../../grpc-status.ts';

/** A call ends with this status instead of an answer. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: status;

  /** @param message  told to the caller */
  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}
