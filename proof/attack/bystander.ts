import { type Child, startChild } from '../processes/child.ts';

/** The other client's results since the last report. */
export interface Sight {
  readonly calls: number;
  readonly answered: number;
  /** Calls that the service refused because it was overloaded. */
  readonly refused: number;
  /** Calls that failed otherwise, by reason: `reset`, `connection lost`, `status 13`. */
  readonly failures: Readonly<Record<string, number>>;
  /** Maximum time from a call's first byte to its answer or failure, including calls that still wait. */
  readonly longestWaitMs: number;
  /** Maximum time that this client's own event loop was blocked, which `longestWaitMs` may include. */
  readonly ownStallMs: number;
}

export type BystanderQuestion =
  | { readonly kind: 'start'; readonly port: number; readonly tls: boolean }
  | { readonly kind: 'report'; readonly settleMs: number };

/**
 * The other client, in a separate process: it sends a call every 5 ms on one connection, without waiting for answers.
 */
export interface Bystander {
  /** Returns the results since the last report. First waits up to `settleMs` until calls are served normally. */
  report(settleMs?: number): Promise<Sight>;
  kill(): Promise<void>;
}

export async function startBystander(port: number, tls: boolean): Promise<Bystander> {
  const child: Child<BystanderQuestion, Sight> = startChild(new URL('./bystander-process.ts', import.meta.url));
  await child.ask({ kind: 'start', port, tls });
  return { report: (settleMs = 0) => child.ask({ kind: 'report', settleMs }), kill: child.kill };
}
