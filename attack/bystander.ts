import { type Child, startChild } from './child.ts';

/** What the other client saw since the last report. */
export interface Sight {
  readonly calls: number;
  readonly answered: number;
  /** Calls that the service refused because it was overloaded. */
  readonly refused: number;
  /** Calls that had another end, by what it was: `reset`, `connection lost`, `status 13`. */
  readonly failures: Readonly<Record<string, number>>;
  /** The longest time from a call's first byte to its answer, however it ended; calls that still wait count as well. */
  readonly longestWaitMs: number;
  /** The longest time for which this client's own event loop did not turn: what may be in `longestWaitMs` through no fault of the service. */
  readonly ownStallMs: number;
}

export type BystanderQuestion =
  | { readonly kind: 'start'; readonly port: number; readonly tls: boolean }
  | { readonly kind: 'report'; readonly settleMs: number };

/** The other client, in a process of its own: it calls every 5 ms on one connection, whatever becomes of the calls before. */
export interface Bystander {
  /** What it saw since the last report. Waits up to `settleMs` until it is served as always. */
  report(settleMs?: number): Promise<Sight>;
  kill(): Promise<void>;
}

export async function startBystander(port: number, tls: boolean): Promise<Bystander> {
  const child: Child<BystanderQuestion, Sight> = startChild('./bystander-process.ts');
  await child.ask({ kind: 'start', port, tls });
  return { report: (settleMs = 0) => child.ask({ kind: 'report', settleMs }), kill: child.kill };
}
