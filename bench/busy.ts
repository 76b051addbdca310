import { spawn } from 'node:child_process';

/** Takes processor time in bursts until it is stopped; a process of its own. */
export interface BusyProcess {
  stop(): void;
}

const BURN = `
const [cpuMs, intervalMs] = process.argv.slice(1).map(Number);
setInterval(() => {
  const start = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(start);
    if ((user + system) / 1_000 >= cpuMs) return;
  }
}, intervalMs);
`;

/** @param cpuMs  in each interval, in one go */
export function startBusyProcess(cpuMs: number, intervalMs: number): BusyProcess {
  const child = spawn(process.execPath, ['-e', BURN, String(cpuMs), String(intervalMs)], { stdio: 'ignore' });
  return { stop: () => void child.kill('SIGKILL') };
}
