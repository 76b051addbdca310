import { getHeapStatistics } from 'node:v8';

/** The memory account of one connection. */
export interface MemoryAccount {
  /** What it was opened with: the connection itself. */
  readonly baseBytes: number;
  /** What the connection's client makes this process hold now, in bytes. May reset this connection or another before it returns. */
  set(bytes: number): void;
  /** The connection has ended: nothing is held for it any more, and later calls of `set` do nothing. */
  close(): void;
}

/** The part of V8's heap limit that callers may fill where no setting says otherwise. */
const DEFAULT_HEAP_SHARE = 1 / 16;
const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;

/**
 * The part of the limit that connections themselves may take. The rest is for what their clients do: else one that opens as many as it can would leave
 * an honest client, which holds a little more, as the one that holds most.
 */
const CONNECTIONS_SHARE = 3 / 4;

/** Half the smallest size class: connections that hold less than 8 KiB are one class. */
const CLASS_SHIFT = 12;
const CLASSES = 33;

/** The default for `CALLER_MEMORY_BYTES`: a sixteenth of V8's heap limit, 256 MiB at most. */
export const defaultCallerMemoryBytes = (): number =>
  Math.min(Math.floor(getHeapStatistics().heap_size_limit * DEFAULT_HEAP_SHARE), DEFAULT_MAX_BYTES);

/**
 * Bounds what all callers together make this process hold beyond the read that brought it: requests that wait, streams, bodies, output that a
 * client does not read. When the sum exceeds the limit, the connection that holds most is reset. It is found by size class, a power of two, so
 * it holds at least half as much as any other connection; no connection is ever searched for.
 */
export class CallerMemory {
  readonly maxBytes: number;
  /** Open accounts by the largest size class that they have had since `#largest` met them; within a class in the order in which they entered it. */
  readonly #classes: readonly Set<Account>[] = Array.from({ length: CLASSES }, () => new Set<Account>());
  #bytes = 0;
  /** The part of it that is connections themselves. */
  #baseBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** The sum over all open accounts. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Open accounts. */
  get connections(): number {
    return this.#classes.reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Opens the account of a connection.
   *
   * @param bytes  what the connection itself takes
   * @param reset  ends the connection at once; called at most once, after its account was closed
   * @returns undefined  there is no room: connections take all that they may, or no other holds noticeably more than this one would
   */
  open(bytes: number, reset: () => void): MemoryAccount | undefined {
    if (this.#baseBytes + bytes > this.maxBytes * CONNECTIONS_SHARE) return undefined;
    const account = new Account(bytes, this.#move, reset);
    if (this.#bytes + bytes > this.maxBytes) {
      const largest = this.#largest();
      if (!largest || largest.sizeClass <= sizeClassOf(bytes)) return undefined;
    }
    account.isOpen = true;
    this.#baseBytes += bytes;
    this.#classes[account.sizeClass]?.add(account);
    account.set(bytes);
    return account;
  }

  readonly #move = (account: Account, bytes: number): void => {
    this.#bytes += bytes - account.bytes;
    const hasGrown = bytes > account.bytes;
    account.bytes = bytes;
    const sizeClass = sizeClassOf(bytes);
    if (!account.isOpen) this.#forget(account);
    else if (sizeClass > account.sizeClass) this.#moveTo(account, sizeClass); // a smaller one is noticed by `#largest`
    if (hasGrown && this.#bytes > this.maxBytes) this.#makeRoom();
  };

  #forget(account: Account): void {
    this.#baseBytes -= account.baseBytes;
    this.#classes[account.sizeClass]?.delete(account);
  }

  #moveTo(account: Account, sizeClass: number): void {
    this.#classes[account.sizeClass]?.delete(account);
    account.sizeClass = sizeClass;
    this.#classes[sizeClass]?.add(account);
  }

  #makeRoom(): void {
    for (let largest = this.#largest(); largest && this.#bytes > this.maxBytes; largest = this.#largest()) {
      largest.close();
      largest.reset();
    }
  }

  /** Accounts that have shrunk are moved to their class here: each such move follows one to a larger class, so it costs no more than that did. */
  #largest(): Account | undefined {
    for (let sizeClass = CLASSES - 1; sizeClass >= 0; sizeClass--)
      for (const account of this.#classes[sizeClass] ?? []) {
        if (sizeClassOf(account.bytes) === sizeClass) return account;
        this.#moveTo(account, sizeClassOf(account.bytes));
      }
    return undefined;
  }
}

class Account implements MemoryAccount {
  readonly baseBytes: number;
  readonly #move: (account: Account, bytes: number) => void;
  readonly reset: () => void;
  bytes = 0;
  sizeClass = 0;
  isOpen = false;

  constructor(baseBytes: number, move: (account: Account, bytes: number) => void, reset: () => void) {
    this.baseBytes = baseBytes;
    this.#move = move;
    this.reset = reset;
  }

  set(bytes: number): void {
    if (this.isOpen && bytes !== this.bytes) this.#move(this, bytes);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#move(this, 0);
  }
}

const sizeClassOf = (bytes: number): number => 32 - Math.clz32(bytes >>> CLASS_SHIFT);
