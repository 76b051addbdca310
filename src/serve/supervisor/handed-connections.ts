import type { Worker } from 'node:cluster';

/** An internal message of Node between the supervisor and a worker: `lib/internal/cluster/utils.js`. */
interface ClusterMessage {
  /** The number of the message. */
  readonly seq?: number;
  /** The number of the message that this one acknowledges. */
  readonly ack?: number;
  /** False if the worker has stopped listening, so that another one must take the connection. */
  readonly accepted?: boolean;
}

/** The part of a socket's handle that is used here. */
interface Handle {
  close(): void;
}

/** A connection that was passed to a worker, whose acknowledgement Node has not read yet. */
interface Handed {
  readonly handle: Handle;
  /** Lets Node read the acknowledgement; undefined until that has arrived. */
  acknowledge?: () => void;
}

/**
 * Acknowledgements are held back for at most this time in any period ten times as long, so that one slow worker does
 * not slow down all.
 */
export const MAX_HOLD_MS = 100;
const HOLD_RATIO = 10;

type WorkerProcess = Pick<Worker['process'], 'send' | 'emit' | 'connected'>;

/**
 * The connections that the supervisor has passed to workers and that they have not acknowledged.
 *
 * Node passes the next connection to the worker that acknowledges first, so of many simultaneous connections, a
 * sleeping or busy worker would get few. Therefore acknowledgements are read in the order in which connections were
 * passed, and workers take turns, unless acknowledgements have been held back for `MAX_HOLD_MS`.
 *
 * Also, Node does not close a connection whose worker dies before it acknowledges: its client would wait forever.
 *
 * @see lib/internal/cluster/round_robin_handle.js of Node
 */
export class HandedConnections {
  readonly #nowMs: () => number;
  /** Oldest first, without those for which the others have waited long enough. */
  readonly #inOrder = new Set<Handed>();
  /** The time since which an acknowledgement has been held back. */
  #heldSinceMs: number | undefined;
  /** The time from which acknowledgements may be held back for the full time again. */
  #restedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param nowMs  monotonic */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** @returns  closes the connections that the process has not acknowledged; call it when the process has ended */
  track(child: WorkerProcess): () => void {
    const ofChild = new Map<number, Handed>();
    const send = child.send.bind(child) as (...args: unknown[]) => boolean; // any of its overloads
    child.send = (...args: unknown[]): boolean => {
      // only Node's cluster module sends handles
      const [message, handle] = args as [ClusterMessage, Handle | undefined];
      if (handle && message.seq !== undefined) ofChild.set(message.seq, this.#add(handle));
      return send(...args);
    };
    const emit = child.emit.bind(child) as (...args: unknown[]) => boolean; // any of its overloads
    child.emit = (...args: unknown[]): boolean => {
      const [event, message] = args as [string, ClusterMessage];
      // Node emits its own messages under this name; the types do not list it.
      const seq = event === 'internalMessage' ? message.ack : undefined;
      const handed = seq === undefined ? undefined : ofChild.get(seq);
      if (seq === undefined || !handed) return emit(...args);
      handed.acknowledge = () => {
        ofChild.delete(seq);
        if (child.connected) emit(...args);
        else handed.handle.close(); // Node would pass the next connection to the worker, and lose that one
      };
      this.#acknowledged(handed, message.accepted !== false);
      return true;
    };
    return () => {
      for (const { handle } of ofChild.values()) handle.close();
      for (const handed of ofChild.values()) this.#inOrder.delete(handed);
      ofChild.clear();
      this.#proceed();
    };
  }

  #add(handle: Handle): Handed {
    const handed: Handed = { handle };
    this.#inOrder.add(handed);
    return handed;
  }

  #acknowledged(handed: Handed, isAccepted: boolean): void {
    if (!isAccepted) this.#inOrder.delete(handed);
    if (!this.#inOrder.has(handed)) handed.acknowledge?.();
    this.#proceed();
  }

  /** Reads acknowledgements up to the first missing one, or skips it if the others have waited long enough. */
  #proceed(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#readInOrder();
    if (!this.#isAnyHeld()) return this.#endHolding();
    const nowMs = this.#nowMs();
    this.#heldSinceMs ??= nowMs;
    const mayHoldMs = MAX_HOLD_MS - Math.max(0, this.#restedAtMs - this.#heldSinceMs) / HOLD_RATIO;
    const leftMs = this.#heldSinceMs + mayHoldMs - nowMs;
    if (leftMs > 0) {
      this.#timer = setTimeout(() => this.#proceed(), leftMs).unref();
      return;
    }
    for (const handed of this.#inOrder) if (!handed.acknowledge) this.#inOrder.delete(handed);
    this.#readInOrder();
    this.#endHolding();
  }

  /** Reading an acknowledgement may pass on a connection. */
  #readInOrder(): void {
    for (const handed of this.#inOrder) {
      if (!handed.acknowledge) return;
      this.#inOrder.delete(handed);
      handed.acknowledge();
    }
  }

  #isAnyHeld(): boolean {
    for (const { acknowledge } of this.#inOrder) if (acknowledge) return true;
    return false;
  }

  #endHolding(): void {
    const sinceMs = this.#heldSinceMs;
    if (sinceMs === undefined) return;
    this.#heldSinceMs = undefined;
    this.#restedAtMs = Math.max(this.#restedAtMs, sinceMs) + (this.#nowMs() - sinceMs) * HOLD_RATIO;
  }
}
