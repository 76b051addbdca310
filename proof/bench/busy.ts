import { spawn } from 'node:child_process';

/** A separate process that uses processor time in bursts until it is stopped. */
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

/** @param cpuMs  processor time of the one burst in each interval */
export function startBusyProcess(cpuMs: number, intervalMs: number): BusyProcess {
  const child = spawn(process.execPath, ['-e', BURN, String(cpuMs), String(intervalMs)], { stdio: 'ignore' });
  return { stop: () => void child.kill('SIGKILL') };
}
