import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis as Connection } from 'ioredis';
import { MAIN } from '../../test/helpers/weir.ts';
import { page } from './operators.ts';
import { DOMAIN, KEYS } from './traffic.ts';

/** Usage that has not changed for this long, several intervals, is complete. */
const UNCHANGED_MS = 35_000;
const POLL_MS = 5_000;
const MAX_WAIT_MS = 600_000;
const SCAN_COUNT = 5_000;

/** The hits of all keys, as the counters and the usage ledger have them. */
export interface Totals {
  readonly counted: number;
  readonly reported: number;
  readonly keys: number;
  /** Keys whose numbers differ. */
  readonly wrongKeys: number;
}

/** Waits until all usage is collected, then compares it with the counters, key by key. */
export async function compareTotals(redis: Connection, debugPort: number, usageDir: string): Promise<Totals> {
  await waitUnchanged(debugPort);
  const counted = await readCounters(redis);
  const reported = await readReport(usageDir);
  const wrong = counted.filter((hits, key) => hits !== reported[key]);
  const keys = counted.filter((hits) => hits > 0);
  return { counted: sum(counted), reported: sum(reported), keys: keys.length, wrongKeys: wrong.length };
}

async function waitUnchanged(port: number): Promise<void> {
  const untilMs = performance.now() + MAX_WAIT_MS;
  let last = { text: '', sinceMs: performance.now() };
  while (performance.now() - last.sinceMs < UNCHANGED_MS && performance.now() < untilMs) {
    const text = await page(port, '/api/v1/usage?by=rule&count=10').catch(() => '');
    if (text !== last.text || text === '') last = { text, sinceMs: performance.now() };
    await sleep(POLL_MS);
  }
}

/** The hits of each counter of a user. */
async function readCounters(redis: Connection): Promise<Uint32Array> {
  const found = new Uint32Array(KEYS);
  for await (const names of redis.scanStream({ match: 'fixed_window|*', count: SCAN_COUNT })) {
    const users = (names as string[]).flatMap((name) => {
      const user = name.includes(`|4:${DOMAIN}|`) && /\|4:user\|\d+:(\d+)$/.exec(name)?.[1];
      return user ? [{ name, user: Number(user) }] : [];
    });
    if (users.length === 0) continue;
    const states = await redis.mgetBuffer(...users.map(({ name }) => name)); // each a window and its count
    for (const [at, { user }] of users.entries()) found[user] = states[at]?.readDoubleLE(8) ?? 0; // `scan` may repeat
  }
  return found;
}

/** The hits of each user in the ledger, as `weir usage` reads it. */
async function readReport(directory: string): Promise<Uint32Array> {
  const found = new Uint32Array(KEYS);
  const args = [MAIN, 'usage', '--dir', directory, '--rule', `${DOMAIN}.user`, '--csv', '--from', '2020-01-01'];
  const command = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<number | null>((resolve) => command.once('close', resolve));
  for await (const line of createInterface({ input: command.stdout })) {
    const [, user, hits] = /,"?user=(\d+)"?,(-?\d+)/.exec(line) ?? [];
    if (user !== undefined) found[Number(user)] = (found[Number(user)] ?? 0) + Number(hits);
  }
  const code = await ended;
  if (code !== 0) throw new Error(`weir usage ended with ${code}`);
  return found;
}

const sum = (numbers: Uint32Array): number => numbers.reduce((all, one) => all + one, 0);
