import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { median } from '../../tables/figures.ts';
import { firstAnswer } from './first-answer.ts';
import type { Site } from './site.ts';

/** Time from start to first answer. */
export interface StartTime {
  /** Relative to the time of `node -e 0` just before. */
  readonly ratio: number;
  readonly ms: number;
}

/**
 * In each round, starts Node alone and then every service, one at a time, so that other work on the machine affects
 * all.
 *
 * @returns  medians
 */
export async function timeStarts(sites: readonly Site[], rounds: number): Promise<ReadonlyMap<Site, StartTime>> {
  const found = new Map<Site, StartTime[]>(sites.map((site) => [site, []]));
  for (let round = 0; round <= rounds; round++) {
    console.error(`start ${round} of ${rounds} …`);
    for (const [site, times] of found) {
      const nodeMs = timeNode();
      const ms = await timeStart(site);
      if (round > 0) times.push({ ratio: ms / nodeMs, ms }); // the first round reads files into the page cache
    }
  }
  const medianStart = (times: readonly StartTime[]): StartTime => ({
    ratio: median(times.map(({ ratio }) => ratio)),
    ms: median(times.map(({ ms }) => ms)),
  });
  return new Map([...found].map(([site, times]) => [site, medianStart(times)]));
}

function timeNode(): number {
  const startedMs = performance.now();
  spawnSync(process.execPath, ['-e', '0']);
  return performance.now() - startedMs;
}

async function timeStart({ command, args, env, grpcPort }: Site): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(command, args, { env, stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    await firstAnswer(grpcPort, () => child.exitCode === null);
    return performance.now() - startedMs;
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
}
