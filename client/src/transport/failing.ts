import type { WeirUnavailable } from '../errors.ts';
import type { Transport } from './transport.ts';

/** The transport of a server that cannot be called: all calls fail with the given reason. */
export const failingTransport = (reason: WeirUnavailable): Transport => ({
  send(_, __, done) {
    queueMicrotask(() => done(reason));
    return () => {};
  },
  sendAll: undefined,
  callHolds: async () => {
    throw reason;
  },
  isReady: async () => false,
  close: () => {},
});
