import type { Worker } from 'node:cluster';

/** A message of Node's own between the primary process and a worker: `lib/internal/cluster/utils.js`. */
interface ClusterMessage {
  /** Numbers a message. */
  readonly seq?: number;
  /** The number of the message that this one acknowledges. */
  readonly ack?: number;
}

/** The part of a socket's handle that is used here. */
interface Handle {
  close(): void;
}

/**
 * Tracks connections that the primary process has passed to a worker and that the worker has not acknowledged. Node
 * does not close them when the worker dies: their clients would wait forever.
 *
 * @returns  closes them
 */
export function trackHandedConnections({ process: child }: Pick<Worker, 'process'>): () => void {
  const handed = new Map<number, Handle>();
  const send = child.send.bind(child) as (...args: unknown[]) => boolean; // whichever of its overloads is called
  child.send = (...args: unknown[]): boolean => {
    // handles are sent by Node's cluster module only
    const [message, handle] = args as [ClusterMessage, Handle | undefined];
    if (handle && message.seq !== undefined) handed.set(message.seq, handle);
    return send(...args);
  };
  // Node emits its own messages under this name; the types do not list it.
  child.on('internalMessage' as 'message', (message) => {
    const { ack } = message as ClusterMessage;
    if (ack !== undefined) handed.delete(ack);
  });
  return () => {
    for (const handle of handed.values()) handle.close();
    handed.clear();
  };
}
