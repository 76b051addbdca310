import { setTimeout as sleep } from 'node:timers/promises';
import { type Running, start } from '../../../test/helpers/process.ts';
import { MIB } from '../../tables/figures.ts';
import { table } from '../../tables/table.ts';
import { firstAnswer } from './first-answer.ts';
import type { Site } from './site.ts';
import { type StartTime, timeStarts } from './starts.ts';
import { type RestUsage, readRestUsage } from './usage.ts';

/** How long a service has been idle at most when its memory is read and its CPU time begins to count. */
const MAX_SETTLE_MS = 5_000;
const COLUMNS = [
  ...['start ÷ `node -e 0`', 'start, ms', 'RSS, MiB', 'shared once, MiB', 'PSS, MiB', 'RSS later, MiB'],
  ...['CPU at first', 'CPU afterwards', 'wake-ups/s'],
] as const;

/** Resource use of one service without calls. */
interface Idle {
  readonly name: string;
  readonly start: StartTime;
  readonly settled: RestUsage;
  readonly last: RestUsage;
  /** Fractions of a core: at first, while V8 collects the garbage of the start, and afterwards. */
  readonly cpuAtFirst: number;
  readonly cpuAfterwards: number;
  readonly wakeUpsPerSecond: number;
}

/**
 * Starts all services repeatedly, then runs them side by side with only one call each.
 *
 * @param seconds  the length of each of two successive measurements of CPU time
 * @param missing  names of services whose programs are missing
 * @returns  a table in Markdown
 */
export async function measureIdle(
  sites: readonly Site[],
  {
    starts,
    seconds,
    missing,
  }: { readonly starts: number; readonly seconds: number; readonly missing: readonly string[] },
): Promise<string> {
  const times = await timeStarts(sites, starts);
  const running: Running[] = [];
  try {
    for (const { name, command, args, env, grpcPort } of sites) {
      const service = await start(command, args, { name, env: { ...env } });
      running.push(service);
      await firstAnswer(grpcPort, () => true);
    }
    await sleep(Math.min(MAX_SETTLE_MS, seconds * 1_000));
    const usages = [running.map(({ pid }) => readRestUsage(pid))];
    for (const part of ['at first', 'afterwards']) {
      console.error(`idle for ${seconds} s, ${part} …`);
      await sleep(seconds * 1_000);
      usages.push(running.map(({ pid }) => readRestUsage(pid)));
    }
    const rows = sites.map((site, at) => {
      const [settled, later, last] = usages.map((all) => all[at]);
      const time = times.get(site);
      if (!settled || !later || !last || !time) throw new Error(`${site.name} was not measured`);
      return {
        name: site.name,
        start: time,
        settled,
        last,
        cpuAtFirst: (later.cpuNs - settled.cpuNs) / (seconds * 1e9),
        cpuAfterwards: (last.cpuNs - later.cpuNs) / (seconds * 1e9),
        wakeUpsPerSecond: (last.wakeUps - later.wakeUps) / seconds,
      };
    });
    return toMarkdown(rows, missing);
  } finally {
    for (const service of running) await service.stop();
  }
}

const toMarkdown = (rows: readonly Idle[], missing: readonly string[]): string =>
  table(['at rest', ...COLUMNS], 1, [
    ...rows.map(({ name, start: { ratio, ms }, settled, last, cpuAtFirst, cpuAfterwards, wakeUpsPerSecond }) => [
      ...[name, ratio.toFixed(1), ms.toFixed(0)],
      ...[settled.residentBytes, settled.togetherBytes, settled.proportionalBytes, last.residentBytes].map(mib),
      ...[cpuAtFirst, cpuAfterwards].map((share) => `${(share * 100).toFixed(2)} %`),
      wakeUpsPerSecond.toFixed(1),
    ]),
    ...missing.map((name) => [name, ...COLUMNS.map(() => 'not measured')]),
  ]);

const mib = (bytes: number): string => (bytes / MIB).toFixed(1);
