import { parseArgs } from 'node:util';
import { table } from '../tables/table.ts';
import { type Manners, neverRecovers, type StormResult, simulateStorm } from './retry-simulation.ts';

export const usage = `Usage: npm run proof -- retry-storm

Runs the 200 clients of the traffic model retry-storm against a server that stalls for two minutes, on a clock of its
own, and prints the effect of their retry policies. The figures are always the same. Takes less than a minute.
`;

const rows: readonly (readonly [string, Manners])[] = [
  ['five retries, 200 ms apart', {}],
  ['five retries with full jitter, no budget', { fetch: { maxAttempts: 6, budget: false } }],
  ['`weirFetch` without its budget', { fetch: { budget: false } }],
  ['`weirFetch`', { fetch: {} }],
  ['`weirFetch`, and responses are used for 30 s', { fetch: {}, cacheMs: 30_000 }],
  ['five retries, 200 ms apart; the server refuses', { isLimited: true }],
  ['`weirFetch`; the server refuses', { fetch: {}, isLimited: true }],
];

/** The table of docs/good-client.md. @param clients  the names of its rows; default: all of them */
export async function stormTable(clients = rows.map(([name]) => name)): Promise<string> {
  const lines: string[][] = [];
  for (const [name, manners] of rows.filter(([name]) => clients.includes(name))) {
    const result = await simulateStorm(manners);
    const { requests, peakPerSecond, failedWhileDown, failedAfter } = result;
    const counts = [requests, peakPerSecond, failedWhileDown, failedAfter].map((count) => count.toLocaleString('en'));
    lines.push([name, ...counts, recoveryText(result)]);
  }
  const columns = ['clients', 'requests', 'most in a second', 'failed in the outage', 'failed later', 'recovery'];
  return `${table(columns, columns.length, lines)}\n`;
}

const recoveryText = (result: StormResult): string => {
  if (neverRecovers(result)) return 'never';
  return result.recoveryMs === 0 ? 'at once' : `${(result.recoveryMs / 1_000).toFixed(1)} s`;
};

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  process.stdout.write(await stormTable());
}
