import { readdirSync, readFileSync } from 'node:fs';

/** The running child processes of a process. */
export const childrenOf = (pid: number): readonly number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((one) => one > 0 && isChild(statusOf(one), pid));

const isChild = (status: string, parent: number): boolean =>
  status.includes(`\nPPid:\t${parent}\n`) && !/^State:\tZ/m.test(status);

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return ''; // it has ended
  }
}

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
