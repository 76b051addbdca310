import { readdirSync, readFileSync } from 'node:fs';

/** The resource use of a process and its running descendants so far. */
export interface Usage {
  readonly cpuMs: number;
  /** Current resident memory. */
  readonly memoryBytes: number;
}

interface Entry extends Usage {
  readonly pid: number;
  readonly parent: number;
}

/** The unit of times in /proc, USER_HZ: a hundredth of a second. */
const TICK_MS = 10;
/** Indexes of the fields after the name in parentheses, from 0 for the state. @see proc_pid_stat(5) */
const field = { ppid: 1, utime: 11, stime: 12 } as const;

/** @throws Error if there is no such process */
export function readUsage(root: number): Usage {
  const inTree = readEntries(root);
  return {
    cpuMs: inTree.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    memoryBytes: inTree.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
  };
}

/** The process and all its descendants. @throws Error if there is no such process */
export const readTree = (root: number): readonly number[] => readEntries(root).map(({ pid }) => pid);

function readEntries(root: number): readonly Entry[] {
  const entries = readAll();
  if (!entries.some(({ pid }) => pid === root)) throw new Error(`there is no process ${root}`);
  const tree = new Set([root]);
  for (let grown = 0; grown < tree.size; ) {
    grown = tree.size;
    for (const { pid, parent } of entries) if (tree.has(parent)) tree.add(pid);
  }
  return entries.filter(({ pid }) => tree.has(pid));
}

const readAll = (): Entry[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readOne(Number(name)) ?? []);

/** Undefined if the process has just ended. */
function readOne(pid: number): Entry | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
      .map(Number);
    const residentKb = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    const ticks = (fields[field.utime] ?? 0) + (fields[field.stime] ?? 0);
    return {
      pid,
      parent: fields[field.ppid] ?? 0,
      cpuMs: ticks * TICK_MS,
      memoryBytes: Number(residentKb ?? 0) * 1024, // kernel threads have none
    };
  } catch {
    return undefined;
  }
}

const NS_PER_MS = 1e6;

/**
 * How long the main thread of a process was ready to run but had no processor, in milliseconds; undefined if the kernel
 * does not count it.
 *
 * @see https://docs.kernel.org/scheduler/sched-stats.html
 */
export function processorWaitMs(pid: number): number | undefined {
  try {
    const [, waitedNs] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ');
    return Number(waitedNs) / NS_PER_MS;
  } catch {
    return undefined;
  }
}
