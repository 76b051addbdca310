import { startChild } from '../../processes/child.ts';

/** Connections to open on 127.0.0.1. */
export interface CrowdOrder {
  readonly port: number;
  readonly connections: number;
  /** The time over which connections are opened evenly. */
  readonly overMs: number;
  /** Whether each makes one call, like a proxy in use; otherwise it sends nothing. */
  readonly calls: boolean;
}

export type CrowdQuestion = { readonly kind: 'open'; readonly order: CrowdOrder } | { readonly kind: 'close' };

/** A client with many connections, in a separate process. */
export interface Crowd {
  /**
   * Opens connections and leaves them open.
   *
   * @returns  the time in ms until the last one was open and its call answered
   * @throws Error  a connection failed, or not all were open in time
   */
  open(order: CrowdOrder): Promise<number>;
  /** Closes all connections immediately with a reset, so that no port stays in use. */
  close(): Promise<void>;
  kill(): Promise<void>;
}

export function startCrowd(): Crowd {
  const { ask, kill } = startChild<CrowdQuestion, number>(new URL('./crowd-process.ts', import.meta.url));
  return {
    open: (order) => ask({ kind: 'open', order }),
    async close() {
      await ask({ kind: 'close' });
    },
    kill,
  };
}
