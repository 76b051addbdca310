import type { Http2Client, Http2Options } from './http2-client.ts';
import type { TcpClient } from './tcp-client.ts';

/** Time limit of an attack that sends a fixed amount and then ends. */
export const FIXED_MS = 15_000;

/** One attempt to make the service fail, a row of the table. */
export interface Attack {
  /** What the attacker does, in a few words; unique. */
  readonly name: string;
  /** Rules of the service, as YAML. Default: `defaultRules`. */
  readonly rules?: string;
  /** Further settings of the service. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether gRPC uses TLS. */
  readonly tls?: true;
  /** Limit on open files of the service. Default: that of this process. */
  readonly openFiles?: number;
  /** Whether the service exchanges with another site, which does not exist. */
  readonly hasSites?: true;
  /** Whether the counters are in a Redis. */
  readonly redis?: true;
  /** Whether the counters are in a Redis that is frozen during the attack. */
  readonly frozenRedis?: true;
  /** Time limit, `FIXED_MS` if the attack ends by itself. Default: until it is stopped. */
  readonly timeMs?: number;
  /** Memory that may stay in use afterwards, for budgets that the attack fills and that belong to no connection. */
  readonly leavesBytes?: number;
  /** Builds the bytes to send before the measurement, so that the attack costs the attacker little. */
  prepare(): (attacker: Attacker) => Promise<void>;
  /**
   * The same number of calls with as many plain descriptors, as a baseline. Default: the same number of bytes of
   * ordinary calls.
   */
  preparePlain?(): (attacker: Attacker) => Promise<void>;
}

export interface Ports {
  readonly grpc: number;
  readonly http: number;
  readonly debug: number;
  /** For other sites; unused unless the attack has them. */
  readonly sites: number;
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
 * Runs `size` loops concurrently until the time is over, with a short rest after each run that keeps failures cheap.
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
