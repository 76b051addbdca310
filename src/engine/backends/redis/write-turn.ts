import type { Cluster } from 'ioredis';

/**
 * Sends the calls to a Cluster's slots that are due in one turn of the event loop, with one write per node: otherwise
 * every call would be a system call.
 */
export class WriteTurn {
  readonly #cluster: Cluster;
  #due: (() => void)[] = [];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Calls the function in the next turn. */
  add(send: () => void): void {
    if (this.#due.push(send) === 1) setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const due = this.#due;
    this.#due = [];
    const nodes = due.length > 1 ? this.#cluster.nodes('master') : [];
    const streams = nodes.map(({ stream }) => stream); // a node's stream may be replaced before its calls are written
    for (const stream of streams) stream?.cork();
    try {
      for (const send of due) send();
    } finally {
      for (const stream of streams) stream?.uncork();
    }
  };
}
