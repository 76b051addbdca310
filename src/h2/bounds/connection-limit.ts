import type { Monotonic } from '../../base/clock.ts';

/** A connection without requests is new for this long, and idle ones are ended before it. */
const UNUSED_MS = 1_000;

/** The share of a peer's connections that are unused only in a flood of new ones. */
const FLOOD_SHARE = 1 / 2;

/** The last connection of a peer is kept for this long after a request. */
const SERVED_MS = 10 * 60_000;

/** The rank of a peer whose last connection is kept; that of others is at least 2. */
const KEPT = 1;
const RANKS = 66;

/** A connection, as far as its place is concerned. */
interface PlacedConnection {
  /** The address of its client. */
  readonly peer: string;
}

/** The connections from one address. */
interface Peer<C> {
  connections: number;
  /** When each was opened that has had no request. */
  readonly unused: Map<C, number>;
  readonly idle: Set<C>;
  servedAtMs: number;
  /** Its place in `#byRank`; 0: none of its connections may be ended. */
  rank: number;
}

/**
 * Limits the number of connections, and selects those without open requests that are ended to make room for new ones.
 *
 * A peer that has at least half as many connections as any other loses one first. No peer loses its only connection
 * within ten minutes of a request.
 *
 * Of a peer's connections, the order is: those that never had a request, the oldest first, then those that have been
 * idle longest, then new ones whose first request may be on its way. If more than half of them are unused, even new
 * ones go before idle ones: otherwise a fast flood of connections would cost other clients behind the same address
 * theirs.
 *
 * Connections are marked by their servers' regular checks, not with each request: those in use since are found and
 * passed over when it is their turn. Each check adds a connection at most once, so the amortized cost of `retireOne` is
 * constant.
 */
export class ConnectionLimit<C extends PlacedConnection = PlacedConnection> {
  readonly max: number;
  readonly #nowMs: Monotonic;
  readonly #retire: (connection: C) => boolean;
  readonly #peers = new Map<string, Peer<C>>();
  /** Peers with connections that may be ended, by `rankOf`. */
  readonly #byRank: readonly Set<Peer<C>>[] = Array.from({ length: RANKS }, () => new Set());
  #size = 0;

  /** @param retire  ends a connection, unless it is in use; returns false then */
  constructor(max: number, nowMs: Monotonic, retire: (connection: C) => boolean) {
    this.max = max;
    this.#nowMs = nowMs;
    this.#retire = retire;
  }

  get isFull(): boolean {
    return this.#size >= this.max;
  }

  /** A new connection, which has no request yet. */
  add(connection: C): void {
    const peer = this.#peers.get(connection.peer) ?? newPeer();
    this.#peers.set(connection.peer, peer);
    this.#size++;
    peer.connections++;
    peer.unused.set(connection, this.#nowMs());
    this.#rank(peer);
  }

  /** @param isIdle  it has no open request, and had none since the previous check */
  mark(connection: C, isIdle: boolean): void {
    const peer = this.#peers.get(connection.peer);
    if (!peer || (isIdle && (peer.unused.has(connection) || peer.idle.has(connection)))) return;
    if (isIdle) peer.idle.add(connection);
    else {
      peer.unused.delete(connection);
      peer.idle.delete(connection);
      peer.servedAtMs = this.#nowMs();
    }
    this.#rank(peer);
  }

  remove(connection: C): void {
    const peer = this.#peers.get(connection.peer);
    if (!peer) return;
    this.#size--;
    peer.connections--;
    peer.unused.delete(connection);
    peer.idle.delete(connection);
    if (peer.connections === 0) this.#peers.delete(connection.peer);
    this.#rank(peer);
  }

  /** @returns false if none may be ended */
  retireOne(): boolean {
    for (let peer = this.#next(); peer; peer = this.#next()) {
      const connection = this.#nextOf(peer);
      if (!connection) return false; // a peer in `#byRank` has one
      if (this.#retire(connection)) return true;
      this.mark(connection, false);
    }
    return false;
  }

  #next(): Peer<C> | undefined {
    const [peer] = this.#byRank.findLast(({ size }) => size > 0) ?? [];
    return peer?.rank === KEPT && this.#nowMs() - peer.servedAtMs < SERVED_MS ? undefined : peer;
  }

  #nextOf({ connections, unused, idle }: Peer<C>): C | undefined {
    const [oldest] = unused;
    const isFlood = unused.size > connections * FLOOD_SHARE;
    if (oldest && (isFlood || this.#nowMs() - oldest[1] >= UNUSED_MS)) return oldest[0];
    const [idlest] = idle;
    return idlest ?? oldest?.[0];
  }

  #rank(peer: Peer<C>): void {
    const rank = rankOf(peer);
    if (rank === peer.rank) return;
    this.#byRank[peer.rank]?.delete(peer);
    peer.rank = rank;
    if (rank > 0) this.#byRank[rank]?.add(peer);
  }
}

const newPeer = <C>(): Peer<C> => ({
  connections: 0,
  unused: new Map(),
  idle: new Set(),
  servedAtMs: Number.NEGATIVE_INFINITY,
  rank: 0,
});

/** Grows with the number of connections, in powers of two; within one, peers with an unused connection come first. */
function rankOf<C>({ connections, unused, idle, servedAtMs }: Peer<C>): number {
  if (unused.size + idle.size === 0) return 0;
  if (connections === 1 && Number.isFinite(servedAtMs)) return KEPT;
  return 2 * (32 - Math.clz32(connections)) + (unused.size > 0 ? 1 : 0);
}
