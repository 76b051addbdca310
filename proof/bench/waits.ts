import { readFileSync } from 'node:fs';

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
