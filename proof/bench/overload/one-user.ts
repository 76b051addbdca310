import { startBusyNeighbours } from '../../../test/helpers/busy-neighbours.ts';
import { startRedis } from '../../../test/helpers/redis.ts';
import { throttle } from '../../../test/helpers/throttle.ts';
import { tableHead, tableRow } from '../../tables/table.ts';
import type { HttpTally } from '../generator/drive-http.ts';
import type { Generator } from '../generator/generator.ts';
import { findProgram } from '../peers/peer.ts';
import { referencePeer } from '../peers/reference.ts';
import type { Service } from '../subjects.ts';
import { type Environment, type LimitedService, listeners, referenceWith, startProxied, weirWith } from './proxied.ts';

export const LIMIT = 3;
/** Weir may let this many more requests pass than the reference, or than the limit where the reference is not built. */
export const ALLOWANCE = 2;
const REQUESTS = 20_000;
const CONNECTIONS = [20, 200];
const TIMEOUT_MS = 1_000;

/** Keeps a service from running. @returns  ends it */
type Hinder = (service: Service) => Promise<() => Promise<void>>;

/** Other processes take most of the processor time. */
const besideOthers: Hinder = async () => {
  const neighbours = await startBusyNeighbours();
  return neighbours.stop;
};

/** The service is stopped for most of the time. */
const throttled: Hinder = async ({ pid }) => throttle(pid).end;

export const hindrances = { busy: besideOthers, throttled } as const;

/**
 * Sends requests of one user through a failing-open Envoy while the service hardly runs, and prints how many passed.
 *
 * @throws  Weir lets more pass than it may
 */
export async function exhaustOneUser(
  mode: keyof typeof hindrances,
  { generator, env }: { readonly generator: Generator; readonly env: Environment },
): Promise<void> {
  const binary = findProgram(referencePeer, process.env);
  console.log(`\n${tableHead([mode, 'connections', 'passed', 'of these undecided', 'refused', 'seconds'])}`);
  const problems: string[] = [];
  for (const connections of CONNECTIONS) {
    const passedBy = async (service: LimitedService): Promise<number> => {
      console.error(`${mode}: ${service.name}, ${connections} connections …`);
      const tally = await sendAsOneUser(service, {
        generator,
        connections,
        requests: REQUESTS,
        timeoutMs: TIMEOUT_MS,
        hinder: hindrances[mode],
      });
      console.log(formatRow(service.name, connections, tally));
      return tally.answers.ADMITTED + tally.answers.UNLIMITED;
    };
    const reference = binary === undefined ? LIMIT : await passedBy(referenceWith(binary, LIMIT));
    const passed = await passedBy(weirWith({ limit: LIMIT, env }));
    if (passed > reference + ALLOWANCE)
      problems.push(`${connections} connections: at most ${reference + ALLOWANCE} requests may pass, got ${passed}`);
  }
  if (binary === undefined) console.log(`\n${referencePeer.name} is not built: npm run proof -- peers`);
  if (problems.length > 0) throw new Error(problems.join('; '));
}

interface SendOptions {
  readonly generator: Generator;
  readonly connections: number;
  readonly requests: number;
  /** How long Envoy waits for a decision. */
  readonly timeoutMs: number;
  readonly hinder: Hinder;
}

/** Sends requests of one user through a failing-open Envoy while the service hardly runs, with counters in Redis. */
export async function sendAsOneUser(
  service: LimitedService,
  { generator, connections, requests, timeoutMs, hinder }: SendOptions,
): Promise<HttpTally> {
  const redis = await startRedis();
  const proxied = await startProxied(service, { redisUrl: redis.url, timeoutMs });
  const release = await hinder(proxied.service);
  try {
    return await generator.driveHttp({
      port: proxied.envoy.portOf(listeners.open),
      connections,
      pace: { kind: 'closed', callsInFlight: 1, end: { calls: requests } },
      users: ['one'],
    });
  } finally {
    await release();
    await proxied.stop();
    await redis.stop();
  }
}

function formatRow(name: string, connections: number, { answers, elapsedMs }: HttpTally): string {
  const { ADMITTED, UNLIMITED, REFUSED } = answers;
  const cells = [name, connections, ADMITTED + UNLIMITED, UNLIMITED, REFUSED, (elapsedMs / 1_000).toFixed(1)];
  return tableRow(cells);
}
