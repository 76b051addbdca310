import { writeSync } from 'node:fs';
import { explore } from './search.ts';
import type { Protocol } from './world.ts';

const { setImmediate: inOtherTurn } = globalThis;

/** Explores a protocol by the options on the command line, as JSON, and prints the result as JSON. */
export function runChild(protocol: Protocol): void {
  inOtherTurn(() => {
    const {
      depth,
      isLong = false,
      fewer = 0,
      reduces = true,
      isShortest = true,
    } = JSON.parse(process.argv[2] ?? '{}') as Partial<ChildOptions>;
    const chosen = depth ?? (isLong ? protocol.longDepth : protocol.depth - fewer);
    const explored = explore(protocol, { depth: chosen, reduces, isShortest });
    const { user, system } = process.cpuUsage();
    const seconds = (user + system) / 1e6;
    const peakMb = Math.round(process.resourceUsage().maxRSS / 1_024);
    const { name, code, parties, invariants } = protocol;
    const result = { name, code, parties, invariants, depth: chosen, seconds, peakMb, ...explored };
    writeSync(1, JSON.stringify(result satisfies ChildResult));
    process.exit();
  });
}

export interface ChildOptions {
  readonly depth: number | undefined;
  readonly isLong: boolean;
  /** By how many steps the default depth is reduced. */
  readonly fewer: number;
  readonly reduces: boolean;
  readonly isShortest: boolean;
}

export interface ChildResult
  extends ReturnType<typeof explore>,
    Pick<Protocol, 'name' | 'code' | 'parties' | 'invariants'> {
  readonly depth: number;
  /** CPU time, with that of the start. */
  readonly seconds: number;
  /** The maximum of resident memory. */
  readonly peakMb: number;
}
