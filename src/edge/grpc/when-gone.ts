/** A call of grpc-js, or of a `HostedCall`. */
interface LeavingCall {
  readonly cancelled: boolean;
  once(event: 'cancelled', listener: () => void): unknown;
}

/**
 * Calls the listener once when the caller has given up; at once if it has already. `cancelled` is emitted only once, so
 * a handler that starts to listen after it has awaited something may miss it.
 */
export function whenGone(call: LeavingCall, listener: () => void): void {
  if (call.cancelled) listener();
  else call.once('cancelled', listener);
}
