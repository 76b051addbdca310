import type { Http2Client, Http2Options } from './http2-client.ts';
import type { Ports } from './service.ts';
import type { TcpClient } from './tcp-client.ts';

/** Time limit of an attack that sends a fixed amount and then ends by itself. */
export const FIXED_MS = 15_000;

/** One attempt to make the service fail: a row of the table. */
export interface Attack {
  /** What the attacker does, in a few words; unique. */
  readonly name: string;
  /** Rules of the service, as YAML; absent: `defaultRules`. */
  readonly rules?: string;
  /** Further settings of the service. */
  readonly env?: Readonly<Record<string, string>>;
  /** gRPC over TLS. */
  readonly tls?: true;
  /** The service's limit on open files; absent: that of this process. */
  readonly openFiles?: number;
  /** It exchanges with another site, which does not exist. */
  readonly hasSites?: true;
  /** The counters are in a Redis. */
  readonly redis?: true;
  /** The counters are in a Redis that is frozen during the attack. */
  readonly frozenRedis?: true;
  /** Its time limit: `FIXED_MS` if it ends by itself. Absent: it continues until it is stopped. */
  readonly timeMs?: number;
  /** Memory that may stay in use afterwards: budgets that the attack fills and that belong to no connection. */
  readonly leavesBytes?: number;
  /** Builds the bytes to send before anything is measured, so that the attack itself costs the attacker little. */
  prepare(): (attacker: Attacker) => Promise<void>;
  /**
   * The same number of calls with as many plain descriptors, which the attack is compared with; absent: it is compared
   * with the same number of bytes of ordinary calls.
   */
  preparePlain?(): (attacker: Attacker) => Promise<void>;
}

/** The tools of an attack, in the attacker's process. */
export interface Attacker {
  readonly ports: Ports;
  readonly rulesPath: string;
  /** Whether the attack's time is over. An attack that continues is cut off. */
  readonly isOver: boolean;
  /** Resolves when the attack's time is over. */
  readonly over: Promise<void>;
  /** Opens a connection to the gRPC port and reads the server's settings. */
  http2(options?: Http2Options): Promise<Http2Client>;
  /** Opens a connection to any port. Received bytes are dropped without `onData`. */
  tcp(port: number, onData?: (bytes: Buffer) => void): Promise<TcpClient>;
  /** Resolves after this time, or earlier when the attack's time is over. */
  sleep(ms: number): Promise<void>;
  /** Records a fault of the service besides the measurements. */
  fault(what: string): void;
}

/**
 * Runs `size` loops concurrently, each repeatedly until the time is over; a short rest after each run keeps failures
 * cheap.
 */
export async function crowd(attacker: Attacker, size: number, loop: (which: number) => Promise<void>): Promise<void> {
  const one = async (which: number): Promise<void> => {
    while (!attacker.isOver) {
      await loop(which);
      await attacker.sleep(10);
    }
  };
  await Promise.all(Array.from({ length: size }, (_, which) => one(which)));
}
