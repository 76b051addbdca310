import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { url as findDebugger } from 'node:inspector';
import { every } from '../../base/clock.ts';
import type { Logger } from '../../operate/observe/log.ts';

/** A shorter interval would wake an idle decider more often than its other timers do. */
const CHECK_INTERVAL_MS = 10_000;
/** The silence after which a process counts as hanging; checking rules takes seconds. */
const MAX_SILENT_S = 30;
/** Number of checks without a message after which a process counts as hanging. */
const MAX_SILENT_CHECKS = (MAX_SILENT_S * 1_000) / CHECK_INTERVAL_MS + 1;

/** Notices that a process hangs. */
export interface Silence {
  /** A message of the process is due. */
  expect(): void;
  /** It has sent a message. */
  heard(): void;
}

/**
 * Kills a process that hangs, until it has ended. Time in which this process does not run counts as one check at most,
 * and intervals in which the other one mostly waits for a processor do not count: on a saturated machine, checking a
 * large rule file at a lower priority takes minutes. With a debugger, which this process shares with its workers, silent
 * processes are not killed: they may wait at a breakpoint.
 */
export function watchSilence(name: string, child: ChildProcess, log: Logger): Silence {
  /** Checks since a message was due; undefined if none is. */
  let silentChecks: number | undefined;
  let waitedBeforeMs = 0;
  const stop = every(CHECK_INTERVAL_MS, () => {
    if (silentChecks === undefined || findDebugger() !== undefined) return;
    const waitedMs = readRunDelayMs(child.pid);
    const isStarved = waitedMs - waitedBeforeMs > CHECK_INTERVAL_MS / 2;
    waitedBeforeMs = waitedMs;
    if (isStarved || ++silentChecks < MAX_SILENT_CHECKS) return;
    silentChecks = undefined;
    log.error(`${name} has not answered for ${MAX_SILENT_S} s and is killed`);
    child.kill('SIGKILL');
  });
  if (child.pid === undefined) stop(); // it could not be started, and emits no exit
  child.once('exit', stop);
  return {
    expect() {
      silentChecks ??= 0;
    },
    heard() {
      silentChecks = undefined;
    },
  };
}

/**
 * The time for which the main thread of a process has waited for a processor; 0 if the system does not tell.
 *
 * @see https://docs.kernel.org/scheduler/sched-stats.html
 */
function readRunDelayMs(pid: number | undefined): number {
  try {
    const [, delayNs] = readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ');
    return Number(delayNs) / 1e6;
  } catch {
    return 0;
  }
}
