import type { status } from './grpc-status.ts';

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
