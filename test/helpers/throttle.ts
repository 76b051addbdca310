import { setTimeout as sleep } from 'node:timers/promises';
import { readTree } from '../../proof/processes/process-tree.ts';
import { signal } from './child-processes.ts';

/** The time in each period that the processes run. */
const RUNNING_MS = 40;
const STOPPED_MS = 60;

/** Processes that are stopped for most of the time. */
export interface Throttled {
  /** Resolves when they run again. */
  end(): Promise<void>;
}

/** Stops a process and its descendants for 60 ms of every 100 ms, as the kernel does if their CPU quota is used up. */
export function throttle(root: number): Throttled {
  const pids = readTree(root);
  let isOver = false;
  const run = async (): Promise<void> => {
    while (!isOver) {
      for (const pid of pids) signal(pid, 'SIGSTOP');
      await sleep(STOPPED_MS);
      for (const pid of pids) signal(pid, 'SIGCONT');
      await sleep(RUNNING_MS);
    }
  };
  const ended = run();
  return {
    end() {
      isOver = true;
      return ended;
    },
  };
}
