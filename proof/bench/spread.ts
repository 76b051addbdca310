import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { readTree } from '../processes/process-tree.ts';
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

/** Maximum number of simultaneously opened connections that one worker got. */
interface Spread {
  readonly connections: number;
  readonly rounds: number;
  /** Maximum while the service was idle. */
  readonly maxAtRest: number;
  /** Maximum while calls on other connections kept it busy. */
  readonly maxWhenBusy: number;
}

/** Repeatedly opens the shape's number of connections together, and counts those of each worker. */
export async function measureSpread(subject: Subject, shape: Shape, generator: Generator): Promise<Spread> {
  const { connections, callsInFlight, question } = shape;
  const { service, clear } = await setStage(subject, shape, generator);
  const crowd = startCrowd();
  const pace = { kind: 'closed', callsInFlight, end: { elapsedMs: BUSY_MS } } as const;
  try {
    let [maxAtRest, maxWhenBusy] = [0, 0];
    for (let round = 0; round < ROUNDS; round++) {
      maxAtRest = Math.max(maxAtRest, await maxPerWorker(service, crowd, connections));
      const busy = generator.drive({ port: service.port, connections, pace, question });
      await sleep(BUSY_BEFORE_MS);
      maxWhenBusy = Math.max(maxWhenBusy, await maxPerWorker(service, crowd, connections));
      await busy;
    }
    return { connections, rounds: ROUNDS, maxAtRest, maxWhenBusy };
  } finally {
    await crowd.kill();
    await clear();
  }
}

async function maxPerWorker({ pid, port }: Service, crowd: Crowd, connections: number): Promise<number> {
  const before = countConnections(pid, port);
  await crowd.open({ port, connections, overMs: 1, calls: true });
  const after = countConnections(pid, port);
  await crowd.close();
  return Math.max(...Array.from(after, ([worker, count]) => count - (before.get(worker) ?? 0)));
}

/** The number of open connections on a port of 127.0.0.1, for each process of a tree. */
function countConnections(root: number, port: number): ReadonlyMap<number, number> {
  const own = readInodes(port);
  const isOwn = (target: string): boolean => own.has(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? '');
  return new Map(readTree(root).map((pid) => [pid, openFiles(pid).filter(isOwn).length]));
}

/** The sockets of a server's established connections. */
function readInodes(port: number): ReadonlySet<string> {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const open = rows.filter((row) => row[field.local]?.endsWith(local) && row[field.state] === ESTABLISHED);
  return new Set(open.map((row) => row[field.inode] ?? ''));
}

/** The open files of a process. */
const openFiles = (pid: number): readonly string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${name}`)];
    } catch {
      return []; // closed meanwhile
    }
  });
