import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DOMAIN } from './traffic.ts';

export const TOKEN = 'operator';
/** As long as `weir usage` waits. */
const TIMEOUT_MS = 120_000;
const MS_PER_SECOND = 1_000;

/** One use of the service by operators. */
interface Use {
  readonly name: string;
  readonly everySeconds: number;
  act(round: number): Promise<unknown>;
}

/** How often a use was tried and failed, and its longest time. */
export interface UseSums {
  readonly name: string;
  times: number;
  /** With a fault and without one. */
  failedInFault: number;
  failed: number;
  longestMs: number;
  lastFailure: string;
}

interface Site {
  readonly debugPort: number;
  /** Where the rules are. */
  readonly folder: string;
  /** Whether the disk is full, or Redis stopped, or was until a moment ago. */
  isFaulty(): boolean;
}

/** Uses the service like operators do, each use again and again, until it is stopped. */
export function startOperators(site: Site): { readonly sums: readonly UseSums[]; stop(): Promise<void> } {
  const end = new AbortController();
  const all = usesOf(site).map((use) => repeat(use, site, end.signal));
  const console = followConsole(site, end.signal);
  return {
    sums: all.map(({ sums }) => sums),
    async stop() {
      end.abort();
      await Promise.all([console, ...all.map(({ ended }) => ended)]);
    },
  };
}

function repeat(use: Use, site: Site, end: AbortSignal): { readonly sums: UseSums; readonly ended: Promise<void> } {
  const sums: UseSums = { name: use.name, times: 0, failedInFault: 0, failed: 0, longestMs: 0, lastFailure: '' };
  const run = async (): Promise<void> => {
    while (!end.aborted) {
      const paused = sleep(use.everySeconds * MS_PER_SECOND, undefined, { signal: end }).catch(() => {});
      const beginMs = performance.now();
      try {
        await use.act(sums.times);
      } catch (error) {
        sums[site.isFaulty() ? 'failedInFault' : 'failed']++;
        sums.lastFailure = error instanceof Error ? error.message : String(error);
      }
      sums.times++;
      sums.longestMs = Math.max(sums.longestMs, performance.now() - beginMs);
      await paused;
    }
  };
  return { sums, ended: run() };
}

const usesOf = ({ debugPort, folder }: Site): readonly Use[] => {
  const read = (path: string) => () => page(debugPort, path);
  return [
    { name: 'reload', everySeconds: 5, act: async (round) => writeRules(folder, round) },
    { name: 'candidate on and off', everySeconds: 15, act: (round) => switchCandidate(debugPort, round) },
    { name: 'usage report', everySeconds: 10, act: read('/api/v1/usage?count=1000') },
    { name: 'console: status', everySeconds: 1, act: read('/api/v1/status') },
    { name: 'console: top clients', everySeconds: 2, act: read('/api/v1/top?by=hits&count=100') },
    { name: 'console: usage by hour', everySeconds: 30, act: read('/api/v1/usage?by=domain&per=hour&count=1000') },
    { name: 'console: unmatched', everySeconds: 5, act: read('/api/v1/unmatched?count=500') },
    { name: 'metrics', everySeconds: 5, act: read('/metrics') },
  ];
};

/** The rules of a version, which differs from others by a limit that no request meets. */
export function writeRules(folder: string, version: number): void {
  writeFileSync(join(folder, 'rules.new'), rules(version));
  renameSync(join(folder, 'rules.new'), join(folder, 'rules.yaml'));
}

const rules = (version: number): string => `domain: ${DOMAIN}
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1000000000, on_store_failure: local }
  - key: client
    rate_limit: { unit: minute, requests_per_unit: 60, on_store_failure: local }
  - key: version
    rate_limit: { unit: day, requests_per_unit: ${1_000 + version} }
`;

const switchCandidate = (port: number, round: number): Promise<string> =>
  round % 2 === 0
    ? page(port, '/api/v1/candidate?reason=soak', { method: 'POST', type: 'application/yaml', body: rules(-1) })
    : page(port, '/api/v1/candidate', { method: 'DELETE', type: 'application/json', body: '{"reason":"soak"}' });

interface Change {
  readonly method: string;
  readonly type: string;
  readonly body: string;
}

const authorization = { authorization: `Bearer ${TOKEN}` };

/** Reads a page, or makes a change. @throws Error  its status is not 200 */
export async function page(port: number, path: string, change?: Change): Promise<string> {
  const init = change
    ? { method: change.method, body: change.body, headers: { ...authorization, 'content-type': change.type } }
    : { headers: authorization };
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
  const text = await answer.text();
  if (answer.status === 200) return text;
  throw new Error(`${change?.method ?? 'GET'} ${path} answered ${answer.status}: ${text.slice(0, 300)}`);
}

/** Follows the snapshots of the console, and connects again if the stream ends. */
async function followConsole({ debugPort }: Site, end: AbortSignal): Promise<void> {
  while (!end.aborted) {
    try {
      const url = `http://127.0.0.1:${debugPort}/api/v1/events`;
      const { body } = await fetch(url, { headers: authorization, signal: end });
      for await (const _ of body ?? []);
    } catch {
      // connects again
    }
    await sleep(MS_PER_SECOND, undefined, { signal: end }).catch(() => {});
  }
}
