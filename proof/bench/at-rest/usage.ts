import { readdirSync, readFileSync } from 'node:fs';
import { readTree } from '../../processes/process-tree.ts';

/** The memory of a process and its descendants, and what they have used since their start. */
export interface RestUsage {
  /** Resident memory; pages that processes share count for each of them. */
  readonly residentBytes: number;
  /**
   * The same, with pages shared by the service's processes counted once, which is PSS if no other process runs Node.
   */
  readonly togetherBytes: number;
  /**
   * The kernel's PSS, in which a shared page is divided among all its processes, including those outside the service.
   */
  readonly proportionalBytes: number;
  /** CPU time of all threads. */
  readonly cpuNs: number;
  /** Voluntary context switches, which equal the number of wake-ups. */
  readonly wakeUps: number;
}

/** @see proc(5), and https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat */
export function readRestUsage(root: number): RestUsage {
  const processes = readTree(root).map(readProcess);
  const sumBy = (key: Exclude<keyof Process, 'fileBytes'>): number => processes.reduce((sum, one) => sum + one[key], 0);
  return {
    residentBytes: sumBy('residentBytes'),
    togetherBytes: sumBy('ownBytes') + Math.max(...processes.map(({ fileBytes }) => fileBytes)),
    proportionalBytes: sumBy('proportionalBytes'),
    cpuNs: sumBy('cpuNs'),
    wakeUps: sumBy('wakeUps'),
  };
}

interface Process extends Pick<RestUsage, 'residentBytes' | 'proportionalBytes' | 'cpuNs' | 'wakeUps'> {
  /** Anonymous pages. */
  readonly ownBytes: number;
  /** Pages of files, such as Node's program, which all processes share. */
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
