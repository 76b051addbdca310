import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { treeOf } from '../processes/process-tree.ts';
import { type Crowd, startCrowd } from './at-rest/crowd.ts';
import type { Generator } from './generator/generator.ts';
import type { Shape } from './shapes.ts';
import { setStage } from './stage.ts';
import type { Service, Subject } from './subjects.ts';

const ROUNDS = 20;
/** How long the service is kept busy in a round, and for how long before connections are opened. */
const BUSY_MS = 300;
const BUSY_BEFORE_MS = 100;
/** Columns of /proc/net/tcp. @see https://docs.kernel.org/networking/proc_net_tcp.html */
const field = { local: 1, state: 3, inode: 9 } as const;
const ESTABLISHED = '01';

/** The largest number of simultaneously opened connections that one worker got. */
export interface Spread {
  readonly connections: number;
  readonly rounds: number;
  /** While the service was idle. */
  readonly mostAtRest: number;
  /** While calls on other connections kept it busy. */
  readonly mostWhenBusy: number;
}

/** Repeatedly opens the shape's number of connections at once, and counts those of each worker. */
export async function measureSpread(subject: Subject, shape: Shape, generator: Generator): Promise<Spread> {
  const { connections, callsInFlight, question } = shape;
  const { service, clear } = await setStage(subject, shape, generator);
  const crowd = startCrowd();
  const pace = { kind: 'closed', callsInFlight, end: { elapsedMs: BUSY_MS } } as const;
  try {
    let [mostAtRest, mostWhenBusy] = [0, 0];
    for (let round = 0; round < ROUNDS; round++) {
      mostAtRest = Math.max(mostAtRest, await mostOf(service, crowd, connections));
      const busy = generator.drive({ port: service.port, connections, pace, question });
      await sleep(BUSY_BEFORE_MS);
      mostWhenBusy = Math.max(mostWhenBusy, await mostOf(service, crowd, connections));
      await busy;
    }
    return { connections, rounds: ROUNDS, mostAtRest, mostWhenBusy };
  } finally {
    await crowd.kill();
    await clear();
  }
}

async function mostOf({ pid, port }: Service, crowd: Crowd, connections: number): Promise<number> {
  const before = connectionsOf(pid, port);
  await crowd.open({ port, connections, overMs: 1, calls: true });
  const after = connectionsOf(pid, port);
  await crowd.close();
  return Math.max(...Array.from(after, ([worker, count]) => count - (before.get(worker) ?? 0)));
}

/** The number of open connections on a port of 127.0.0.1, for each process of a tree. */
export function connectionsOf(root: number, port: number): ReadonlyMap<number, number> {
  const own = inodesOf(port);
  const isOwn = (target: string): boolean => own.has(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? '');
  return new Map(treeOf(root).map((pid) => [pid, filesOf(pid).filter(isOwn).length]));
}

/** The sockets of a server's established connections. */
function inodesOf(port: number): ReadonlySet<string> {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const open = rows.filter((row) => row[field.local]?.endsWith(local) && row[field.state] === ESTABLISHED);
  return new Set(open.map((row) => row[field.inode] ?? ''));
}

/** The open files of a process. */
const filesOf = (pid: number): readonly string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${name}`)];
    } catch {
      return []; // closed meanwhile
    }
  });
