import type { Http2Client, Http2Options } from './http2-client.ts';
import type { Ports } from './service.ts';
import type { TcpClient } from './tcp-client.ts';

/** The most that an attack may take which sends a certain amount and then ends by itself. */
export const FIXED_MS = 15_000;

/** One way to make the service fail, as a row of the table. */
export interface Attack {
  /** What the attacker does, in a few words; no two attacks have the same. */
  readonly name: string;
  /** Rules of the service, as YAML; absent: `defaultRules`. */
  readonly rules?: string;
  /** Further settings of the service. */
  readonly env?: Readonly<Record<string, string>>;
  /** gRPC over TLS. */
  readonly tls?: true;
  /** Counters in a Redis that is frozen while the attack lasts. */
  readonly frozenRedis?: true;
  /** The most that it may take: `FIXED_MS` where it ends by itself. Absent: it goes on for as long as it is let. */
  readonly timeMs?: number;
  /** Memory that may stay in use afterwards: that of budgets which the attack fills and which belong to no connection. */
  readonly leavesBytes?: number;
  /** Builds what is sent, before anything is measured, so that attacking costs the attacker little. */
  prepare(): (attacker: Attacker) => Promise<void>;
}

/** What an attack has to work with, in a process of its own. */
export interface Attacker {
  readonly ports: Ports;
  readonly rulesPath: string;
  /** Whether its time is over. An attack that goes on for longer is cut off. */
  readonly isOver: boolean;
  /** Resolves when its time is over. */
  readonly over: Promise<void>;
  /** Opens a connection to the gRPC port and reads the server's settings. */
  http2(options?: Http2Options): Promise<Http2Client>;
  /** Opens a connection to any port. What comes on it is dropped unless it is taken. */
  tcp(port: number, onData?: (bytes: Buffer) => void): Promise<TcpClient>;
  /** For so long, or until its time is over. */
  sleep(ms: number): Promise<void>;
  /** Records something that the service must not do, apart from what is measured. */
  fault(what: string): void;
}

/** Runs as many loops side by side, each again and again until the time is over; a short rest after each keeps failures cheap. */
export async function crowd(attacker: Attacker, size: number, loop: (which: number) => Promise<void>): Promise<void> {
  const one = async (which: number): Promise<void> => {
    while (!attacker.isOver) {
      await loop(which);
      await attacker.sleep(10);
    }
  };
  await Promise.all(Array.from({ length: size }, (_, which) => one(which)));
}
