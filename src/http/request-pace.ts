import type { Socket } from 'node:net';
import type { Turns } from '../turns.ts';

/**
 * Input after which other connections get their turn: Node calls back for each chunk of a body, and libuv reads a
 * socket up to 32 times in a row, 64 KiB each.
 */
const OCTETS_A_TURN = 65_536;
/** What a request counts besides its body. */
const REQUEST_OCTETS = 4_096;
/** The least that a chunk of a body takes besides its octets. */
const CHUNK_OCTETS = 5;

/**
 * Decides when a connection is read: its first input, and what follows a turn's share, when it is its turn. A read may
 * have hundreds of requests, whether they will be answered or not.
 */
export class RequestPace {
  readonly #socket: Socket;
  readonly #turns: Turns;
  #octetsLeft = 0;
  #isPaused = false;

  /** @param turns  of all connections of a server */
  constructor(socket: Socket, turns: Turns) {
    this.#socket = socket;
    this.#turns = turns;
    this.#awaitTurn();
  }

  /** The socket must not be resumed. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  countRequest(): void {
    this.#count(REQUEST_OCTETS);
  }

  countChunk(octets: number): void {
    this.#count(octets + CHUNK_OCTETS);
  }

  #count(octets: number): void {
    this.#octetsLeft -= octets;
    if (this.#octetsLeft <= 0 && !this.#isPaused) this.#awaitTurn();
  }

  #awaitTurn(): void {
    this.#isPaused = true;
    this.#socket.pause();
    void this.#turns
      .next(() => this.#socket.destroyed)
      .then(() => {
        this.#isPaused = false;
        this.#octetsLeft = OCTETS_A_TURN;
        this.#socket.resume();
      });
  }
}
