import { memoryUsage, resourceUsage } from 'node:process';

/** What a process uses of its machine. */
export interface ProcessUse {
  /** Processor time since its start, in seconds. */
  readonly userSeconds: number;
  readonly systemSeconds: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
}

const MICROSECONDS = 1e6;

export function ownUse(): ProcessUse {
  const { userCPUTime, systemCPUTime } = resourceUsage();
  const { rss, heapUsed } = memoryUsage();
  return {
    userSeconds: userCPUTime / MICROSECONDS,
    systemSeconds: systemCPUTime / MICROSECONDS,
    rssBytes: rss,
    heapBytes: heapUsed,
  };
}

export const addUse = (one: ProcessUse, other: ProcessUse): ProcessUse => ({
  userSeconds: one.userSeconds + other.userSeconds,
  systemSeconds: one.systemSeconds + other.systemSeconds,
  rssBytes: one.rssBytes + other.rssBytes,
  heapBytes: one.heapBytes + other.heapBytes,
});
