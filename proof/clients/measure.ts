import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from './install.ts';

/** The headers of a refusal, and the wait that they ask for. */
export interface Answer {
  readonly column: string;
  readonly waitMs: number;
  headers(): Readonly<Record<string, string>>;
}

const SECOND_MS = 1_000;
const DAY_S = 86_400;
const WAIT_MS = 2 * SECOND_MS;
const OBSERVED_MS = 9 * SECOND_MS;
const AT_ONCE_MS = 150;
const LATE_MS = 3 * SECOND_MS;

const fixed = (column: string, headers: Readonly<Record<string, string>>, waitMs = WAIT_MS): Answer => ({
  column,
  waitMs,
  headers: () => headers,
});
const limits = (prefix: string) => ({ [`${prefix}Limit`]: '1', [`${prefix}Remaining`]: '0', [`${prefix}Reset`]: '2' });
const ofDraft = { 'RateLimit-Policy': '"limit";q=1;w=2', RateLimit: '"limit";r=0;t=2' };

export const answers: readonly Answer[] = [
  fixed('`Retry-After`', { 'Retry-After': '2' }),
  {
    column: 'as a date',
    waitMs: WAIT_MS,
    headers: () => ({ 'Retry-After': new Date(Date.now() + WAIT_MS + SECOND_MS - 1).toUTCString() }),
  },
  fixed('24 days', { 'Retry-After': String(24 * DAY_S) }, Number.POSITIVE_INFINITY),
  fixed('30 days', { 'Retry-After': String(30 * DAY_S) }, Number.POSITIVE_INFINITY),
  fixed('`RateLimit-Reset`', limits('RateLimit-')),
  fixed('`X-RateLimit-Reset`', limits('X-RateLimit-')),
  fixed('and `X-RateLimit-Retry-After`', { ...limits('X-RateLimit-'), 'X-RateLimit-Retry-After': '2' }),
  fixed('`RateLimit`', ofDraft),
  fixed('all', { 'Retry-After': '2', ...limits('RateLimit-'), ...limits('X-RateLimit-'), ...ofDraft }),
];

/** What a client did after a refusal. */
export type Reaction = 'right' | 'too long' | 'not at all' | 'early' | 'at once';

interface Refuser {
  readonly server: Server;
  readonly url: string;
  readonly arrivals: number[];
}

/** Runs a client once for each answer, all at the same time. @throws Error  the client sent nothing */
export async function reactionsOf({ file, args, cwd, env }: Command): Promise<readonly Reaction[]> {
  const refusers = await Promise.all(answers.map(startRefuser));
  const urls = refusers.map(({ url }) => url);
  const stderr = process.env.CLIENT_ERRORS === undefined ? 'ignore' : 'inherit';
  const child = spawn(file, [...args, ...urls], { cwd, env, stdio: ['ignore', 'pipe', stderr] });
  let printed = '';
  child.stdout?.on('data', (data) => (printed += data));
  const closed = once(child, 'close');
  const allSent = Promise.all(refusers.map(({ server }) => once(server, 'request')));
  await Promise.race([closed, allSent.then(() => sleep(OBSERVED_MS))]);
  child.kill('SIGKILL');
  await closed;
  for (const { server } of refusers) server.close().closeAllConnections();
  return refusers.map(({ arrivals, url }, at) => judge(arrivals, answers[at]?.waitMs ?? 0, printed.includes(url)));
}

/** Starts a server that refuses requests until the wait is over. */
async function startRefuser({ headers, waitMs }: Answer): Promise<Refuser> {
  const arrivals: number[] = [];
  const server = createServer((request, response) => {
    request.resume();
    arrivals.push(performance.now());
    const isOver = performance.now() - (arrivals[0] ?? 0) >= waitMs;
    response.writeHead(isOver ? 200 : 429, { 'content-type': 'application/json', ...(isOver ? {} : headers()) });
    response.end('{"ok":true}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, arrivals };
}

function judge([first, second]: readonly number[], waitMs: number, hasEnded: boolean): Reaction {
  if (first === undefined) throw new Error('the client has sent nothing; CLIENT_ERRORS=1 prints its errors');
  if (second === undefined && hasEnded) return 'not at all';
  if (second === undefined) return waitMs > OBSERVED_MS ? 'right' : 'too long';
  const waitedMs = second - first;
  if (waitedMs < AT_ONCE_MS) return 'at once';
  if (waitedMs < waitMs) return 'early';
  return waitedMs < waitMs + LATE_MS ? 'right' : 'too long';
}
