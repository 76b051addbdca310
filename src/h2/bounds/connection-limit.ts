import type { Monotonic } from '../../base/clock.ts';

/** Time for which a connection without requests counts as new; idle connections are ended before new ones. */
const UNUSED_MS = 1_000;

/** Fraction of a peer's connections above which unused ones indicate a flood. */
const FLOOD_FRACTION = 1 / 2;

/** Time after a request for which a peer's last connection is kept. */
const SERVED_MS = 10 * 60_000;

/** Rank of a peer whose last connection is kept; other peers rank at least 2. */
const KEPT = 1;
const RANKS = 66;

/** A connection, as far as the limit is concerned. */
interface PlacedConnection {
  /** The address of its client. */
  readonly peer: string;
}

/** The connections from one address. */
interface Peer<C> {
  connections: number;
  /** Opening times of connections that have had no request. */
  readonly unused: Map<C, number>;
  readonly idle: Set<C>;
  servedAtMs: number;
  /** Index in `#byRank`; 0 if none of its connections may be ended. */
  rank: number;
}

/**
 * Limits the number of connections, and ends those without open requests in favour of new ones. The peer with most
 * connections, within a factor of two, loses one first. No peer loses its only connection within ten minutes of a
 * request.
 *
 * A peer loses old connections without a request first, then those idle longest, then new ones whose first request
 * may be on its way. When more than half are unused, new ones go before idle ones, so that a flood of connections does
 * not cost other clients behind the same address theirs.
 *
 * Servers mark connections in regular checks rather than on each request, so `retireOne` passes over those used since.
 * Each check adds a connection at most once, so the amortized cost of `retireOne` is constant.
 */
export class ConnectionLimit<C extends PlacedConnection = PlacedConnection> {
  readonly max: number;
  readonly #nowMs: Monotonic;
  readonly #retire: (connection: C) => boolean;
  readonly #peers = new Map<string, Peer<C>>();
  /** Peers with connections that may be ended, by `rankPeer`. */
  readonly #byRank: readonly Set<Peer<C>>[] = Array.from({ length: RANKS }, () => new Set());
  #size = 0;

  /** @param retire  ends a connection; returns false without doing so if it is in use */
  constructor(max: number, nowMs: Monotonic, retire: (connection: C) => boolean) {
    this.max = max;
    this.#nowMs = nowMs;
    this.#retire = retire;
  }

  get isFull(): boolean {
    return this.#size >= this.max;
  }

  /** Adds a connection that has had no request. */
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
      const connection = this.#victim(peer);
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

  #victim({ connections, unused, idle }: Peer<C>): C | undefined {
    const [oldest] = unused;
    const isFlood = unused.size > connections * FLOOD_FRACTION;
    if (oldest && (isFlood || this.#nowMs() - oldest[1] >= UNUSED_MS)) return oldest[0];
    const [idlest] = idle;
    return idlest ?? oldest?.[0];
  }

  #rank(peer: Peer<C>): void {
    const rank = rankPeer(peer);
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

/**
 * Rank by number of connections, in powers of two; of those with equal powers, peers with an unused connection first.
 */
function rankPeer<C>({ connections, unused, idle, servedAtMs }: Peer<C>): number {
  if (unused.size + idle.size === 0) return 0;
  if (connections === 1 && Number.isFinite(servedAtMs)) return KEPT;
  return 2 * (32 - Math.clz32(connections)) + (unused.size > 0 ? 1 : 0);
}
