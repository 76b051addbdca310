import { readdirSync, readFileSync } from 'node:fs';
import { treeOf } from '../process-tree.ts';

/** What a process and its descendants hold, and have used since they started. */
export interface RestUsage {
  /** Resident: pages that processes share count for each of them. */
  readonly residentBytes: number;
  /** The same, but what the processes of the service share with each other counts once: PSS, if nothing else ran Node. */
  readonly togetherBytes: number;
  /** As the kernel sums it up: pages that other processes of Node have as well, not only of the service, count in part. */
  readonly proportionalBytes: number;
  /** CPU time of all threads. */
  readonly cpuNs: number;
  /** How often a thread went to sleep by itself, which is how often one woke up. */
  readonly wakeUps: number;
}

/** @see proc(5), and https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat */
export function restUsageOf(root: number): RestUsage {
  const processes = treeOf(root).map(readProcess);
  const sumOf = (key: Exclude<keyof Process, 'fileBytes'>): number => processes.reduce((sum, one) => sum + one[key], 0);
  return {
    residentBytes: sumOf('residentBytes'),
    togetherBytes: sumOf('ownBytes') + Math.max(...processes.map(({ fileBytes }) => fileBytes)),
    proportionalBytes: sumOf('proportionalBytes'),
    cpuNs: sumOf('cpuNs'),
    wakeUps: sumOf('wakeUps'),
  };
}

interface Process extends Pick<RestUsage, 'residentBytes' | 'proportionalBytes' | 'cpuNs' | 'wakeUps'> {
  /** Pages that no file has. */
  readonly ownBytes: number;
  /** Pages of files, such as Node's program: every process has the same. */
  readonly fileBytes: number;
}

function readProcess(pid: number): Process {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const [residentBytes, fileBytes] = [kilobytes('VmRSS', status), kilobytes('RssFile', status)];
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) => readThread(`/proc/${pid}/task/${thread}`));
  return {
    residentBytes,
    ownBytes: residentBytes - fileBytes,
    fileBytes,
    proportionalBytes: kilobytes('Pss', readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')),
    cpuNs: threads.reduce((sum, { cpuNs }) => sum + cpuNs, 0),
    wakeUps: threads.reduce((sum, { wakeUps }) => sum + wakeUps, 0),
  };
}

function readThread(folder: string): Pick<RestUsage, 'cpuNs' | 'wakeUps'> {
  const [cpuNs = 0] = readFileSync(`${folder}/schedstat`, 'utf8').split(' ').map(Number);
  const switches = /^voluntary_ctxt_switches:\s+(\d+)$/m.exec(readFileSync(`${folder}/status`, 'utf8'))?.[1];
  return { cpuNs, wakeUps: Number(switches) };
}

const kilobytes = (name: string, text: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]) * 1024;
