import { readdirSync, readFileSync } from 'node:fs';

/** What a process and all its descendants have used so far; ended ones do not count. */
export interface Usage {
  readonly cpuMs: number;
  /** Resident now. */
  readonly memoryBytes: number;
}

interface Entry extends Usage {
  readonly pid: number;
  readonly parent: number;
}

/** The unit of times that Linux shows, USER_HZ: a hundred a second. */
const TICK_MS = 10;
/** Of the fields that follow the name in parentheses, where state is the first. @see proc_pid_stat(5) */
const field = { ppid: 1, utime: 11, stime: 12 } as const;

/** @throws  there is no such process */
export function usageOf(root: number): Usage {
  const inTree = entriesOf(root);
  return {
    cpuMs: inTree.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    memoryBytes: inTree.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
  };
}

/** The process and all its descendants. @throws  there is no such process */
export const treeOf = (root: number): readonly number[] => entriesOf(root).map(({ pid }) => pid);

function entriesOf(root: number): readonly Entry[] {
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

/** Undefined for one that has just ended. */
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
      memoryBytes: Number(residentKb ?? 0) * 1024, // a thread of the kernel has none
    };
  } catch {
    return undefined;
  }
}
