import { fileURLToPath } from 'node:url';
import { type Manners, neverRecovers, type StormResult, simulateStorm } from './retry-simulation.ts';
import { showUsage } from './usage.ts';

const usage = `Usage: npm run retry-storm

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

/** The table of docs/good-client.md. */
export async function stormTable(): Promise<string> {
  const lines = [
    '| clients | requests | most in a second | failed in the outage | failed later | recovery |',
    '| --- | --- | --- | --- | --- | --- |',
  ];
  for (const [name, manners] of rows) {
    const result = await simulateStorm(manners);
    const { requests, peakPerSecond, failedWhileDown, failedAfter } = result;
    const counts = [requests, peakPerSecond, failedWhileDown, failedAfter].map((count) => count.toLocaleString('en'));
    lines.push(`| ${[name, ...counts, recoveryOf(result)].join(' | ')} |`);
  }
  return `${lines.join('\n')}\n`;
}

const recoveryOf = (result: StormResult): string => {
  if (neverRecovers(result)) return 'never';
  return result.recoveryMs === 0 ? 'at once' : `${(result.recoveryMs / 1_000).toFixed(1)} s`;
};

async function main(): Promise<void> {
  showUsage(usage);
  process.stdout.write(await stormTable());
}

if (process.argv[1] === fileURLToPath(import.meta.url)) void main();
