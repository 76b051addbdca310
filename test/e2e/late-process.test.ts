import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Metadata } from '@grpc/grpc-js';
import { type Generator, startGenerator } from '../../proof/bench/generator/generator.ts';
import { ALLOWANCE, hindrances, LIMIT, sendAsOneUser } from '../../proof/bench/overload/one-user.ts';
import { weirWith } from '../../proof/bench/overload/proxied.ts';
import { DOMAIN } from '../../proof/bench/shapes.ts';
import type { Service } from '../../proof/bench/subjects.ts';
import { signal } from '../helpers/child-processes.ts';
import { createClient } from '../helpers/grpc-client.ts';
import { startRedis } from '../helpers/redis.ts';
import { startTcpProxy } from '../helpers/tcp-proxy.ts';

/** Weir with its defaults: neither STORE_TIMEOUT nor any other setting of overload. */
const weir = weirWith({ limit: LIMIT, env: {} });

/** In `npm run proof -- overload` Envoy waits for 1 s. On a starved machine answers may take longer. */
const TIMEOUT_MS = 10_000;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

describe('with a limit of 3, an Envoy that fails open', () => {
  let generator: Generator;
  beforeAll(() => {
    generator = startGenerator();
  });
  afterAll(() => generator.stop());

  test.each([
    ['beside six busy processes', 'busy'],
    ['while the service is stopped for 60 ms of every 100 ms', 'throttled'],
  ] as const)('lets at most 5 of 2,000 requests of one user pass over 200 connections %s', async (_, hindered) => {
    const load = { connections: 200, requests: 2_000, timeoutMs: TIMEOUT_MS };
    const { answers } = await sendAsOneUser(weir, { generator, hinder: hindrances[hindered], ...load });
    expect(answers.FAILED).toBe(0);
    expect(answers.ADMITTED + answers.UNLIMITED).toBeLessThanOrEqual(LIMIT + ALLOWANCE);
  });
});

const CONNECTIONS = 4;
const CALLS = 400;
const STOPPED_MS = 1_000;
const decided = { OK: LIMIT, OVER_LIMIT: CALLS - LIMIT };

/** Opens a few connections. @returns  sends all calls of a user at once, and counts their outcomes */
async function openCallers(port: number): Promise<() => Promise<Record<string, number>>> {
  const clients = Array.from({ length: CONNECTIONS }, () => createClient(`127.0.0.1:${port}`));
  closing.push(() => {
    for (const client of clients) client.close();
  });
  await Promise.all(clients.map((client) => client.check()));
  const metadata = new Metadata();
  metadata.set('grpc-timeout', '5S'); // as a header, so that a busy client does not give up by itself
  return async () => {
    const outcomes = Array.from({ length: CALLS / CONNECTIONS }, () =>
      clients.map((client) =>
        client.ask(DOMAIN, metadata).then(
          ({ overall_code }) => ['UNKNOWN', 'OK', 'OVER_LIMIT'][overall_code] ?? `code ${overall_code}`,
          (error: Error) => error.message,
        ),
      ),
    );
    const counts: Record<string, number> = {};
    for (const outcome of await Promise.all(outcomes.flat())) counts[outcome] = (counts[outcome] ?? 0) + 1;
    return counts;
  };
}

async function startService(redisUrl?: string): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'late-process-'));
  const service = await weir.start({ folder, redisUrl });
  closing.push(service.stop);
  return service;
}

async function stopForASecond({ pid }: Service): Promise<void> {
  signal(pid, 'SIGSTOP');
  await sleep(STOPPED_MS);
  signal(pid, 'SIGCONT');
}

describe('a service that is stopped for a second', () => {
  test.each(['memory', 'Redis'])('decides all 400 calls that arrive meanwhile, with counters in %s', async (store) => {
    const redis = store === 'Redis' ? await startRedis() : undefined;
    closing.push(() => redis?.stop());
    const service = await startService(redis?.url);
    const call = await openCallers(service.port);
    const continued = stopForASecond(service);
    const outcomes = call();
    await continued;
    expect(await outcomes).toEqual(decided);
  });

  test('decides all 400 calls in flight whose replies from Redis arrive meanwhile', async () => {
    const redis = await startRedis();
    closing.push(redis.stop);
    let onSpend = (): void => {};
    const proxy = await startTcpProxy(redis.port, ({ client, server }) => {
      client.on('data', (bytes) => {
        if (/EVAL/i.test(bytes.toString('latin1'))) onSpend();
        setImmediate(() => server.write(bytes)); // after whoever waits for the spend
      });
      server.pipe(client);
    });
    closing.push(proxy.close);
    const service = await startService(`127.0.0.1:${proxy.port}`);
    const call = await openCallers(service.port);
    const spend = new Promise<void>((resolve) => {
      onSpend = resolve;
    });
    const continued = spend.then(() => stopForASecond(service));
    const outcomes = call();
    await continued;
    expect(await outcomes).toEqual(decided);
  });
});
