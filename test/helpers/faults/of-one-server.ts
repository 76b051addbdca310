import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis as Client } from 'ioredis';
import type { Environment } from '../../../src/settings/near-misses.ts';
import { freePort } from '../process.ts';
import { type Redis, startRedis } from '../redis.ts';
import { clientOf } from '../redis-topologies.ts';
import { type ProxiedConnection, startTcpProxy } from '../tcp-proxy.ts';
import { eventually } from '../until.ts';
import type { Fault } from './fault.ts';

const PASSWORD = 's3cret';
const POLL_MS = 25;

interface OfOne {
  readonly args?: readonly string[];
  readonly env?: Environment;
  readonly losses?: number;
  readonly isFelt?: boolean;
  readonly password?: string;
}

/** A fault of a single server. `strike` gets the server, an operator's client of it, and `felt` of `Victim.strike`. */
function ofOne(
  event: string,
  strike: (server: Redis, operator: Client, felt: () => Promise<void>) => Promise<void>,
  { args = [], env = {}, losses = 0, isFelt = true, password }: OfOne = {},
): Fault {
  return {
    ...{ event, losses, isFelt },
    async begin() {
      const server = await startRedis({ args });
      const operator = clientOf(server, password);
      await operator.ping(); // connects now: during a fault it might fail
      return {
        env: { REDIS_URL: server.url, ...env },
        strike: (felt) => strike(server, operator, felt),
        async stop() {
          operator.disconnect();
          await server.stop();
        },
      };
    },
  };
}

const restarted = ofOne('Redis restarts and has lost everything', (server) => server.restart(), { losses: 1 });

const scriptsFlushed = ofOne(
  '`SCRIPT FLUSH`, again and again for 1 s',
  async (_, operator) => {
    for (let times = 0; times < 40; times++) {
      await operator.script('FLUSH');
      await sleep(25);
    }
  },
  { isFelt: false },
);

const frozen = ofOne('Redis stands still for 5 s (`SIGSTOP`)', async (server, _, felt) => {
  server.pause();
  await sleep(5_000);
  await felt();
  server.resume();
});

const paused = ofOne('`CLIENT PAUSE` for 2 s', async (_, operator, felt) => {
  const isFelt = felt().then(() => true);
  await eventually(async () => {
    await operator.client('PAUSE', 2_000, 'ALL');
    await operator.ping(); // answered when the pause is over
    return Promise.race([isFelt, sleep(POLL_MS, false)]);
  });
});

const writesPaused = ofOne('`CLIENT PAUSE … WRITE` for 2 s', async (_, operator, felt) => {
  await operator.client('PAUSE', 60_000, 'WRITE');
  await sleep(2_000);
  await felt();
  await operator.client('UNPAUSE');
});

const busy = ofOne(
  'a script of another client runs for 2 s, until `SCRIPT KILL`',
  async (server, operator, felt) => {
    const other = clientOf(server);
    await other.ping(); // connects now: a script that began after the last KILL would never end
    let isOver = false;
    const endless = other.eval('while true do end', 0).catch(() => {}); // it is killed
    void endless.then(() => {
      isOver = true;
    });
    await sleep(2_000);
    await felt();
    await eventually(async () => {
      await operator.script('KILL').catch(() => {}); // it has not begun yet
      return isOver;
    });
    other.disconnect();
  },
  { args: ['--busy-reply-threshold', '500'] }, // longer than a starved server takes for an ordinary script
);

const full = ofOne('`maxmemory` is reached for 1 s (`noeviction`)', async (_, operator, felt) => {
  await operator.config('SET', 'maxmemory', '1');
  await sleep(1_000);
  await felt();
  await operator.config('SET', 'maxmemory', '0');
});

const lockedOut = ofOne(
  'the password is another one for 2 s, and connections are closed',
  async (_, operator, felt) => {
    await operator.config('SET', 'requirepass', 'another');
    await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await sleep(2_000);
    await felt();
    await operator.config('SET', 'requirepass', PASSWORD);
  },
  { args: ['--requirepass', PASSWORD], env: { REDIS_AUTH: PASSWORD }, password: PASSWORD },
);

const demoted = ofOne('Redis is a replica for 2 s (`READONLY`)', async (_, operator, felt) => {
  await operator.replicaof('127.0.0.1', String(await freePort())); // of no server, so that it keeps its counters
  await sleep(2_000);
  await felt();
  await operator.replicaof('NO', 'ONE');
});

/** These make loading take about two seconds. */
const LOADED_KEYS = 2_000;
const US_A_KEY = 1_000;

const reloaded: Fault = {
  event: 'Redis is killed, restarts and loads everything for 2 s (`LOADING`)',
  losses: 0,
  isFelt: true,
  async begin() {
    const folder = await mkdtemp(join(tmpdir(), 'redis-kept-'));
    const slow = ['--key-load-delay', String(US_A_KEY), '--loading-process-events-interval-bytes', '1024'];
    const server = await startRedis({ args: slow, folder });
    const operator = clientOf(server);
    await operator.mset(Array.from({ length: LOADED_KEYS }, (_, at) => [`other-${at}`, 'x'.repeat(100)]).flat());
    await operator.bgrewriteaof(); // afterwards each key is a separate command
    operator.disconnect();
    return {
      env: { REDIS_URL: server.url },
      async strike() {
        await server.kill();
        await server.restart();
      },
      async stop() {
        await server.stop();
        await rm(folder, { recursive: true });
      },
    };
  },
};

const cutOff: Fault = {
  event: 'connections break in the middle of a reply, ten times',
  losses: 0,
  isFelt: true,
  async begin() {
    const server = await startRedis();
    const broken = new Set<ProxiedConnection>();
    const proxy = await startTcpProxy(server.port, (connection) => {
      const { client, end } = connection;
      client.pipe(connection.server);
      connection.server.on('data', (reply) => {
        if (broken.has(connection)) client.write(reply.subarray(0, Math.floor(reply.length / 2)), end);
        else client.write(reply);
      });
    });
    return {
      env: { REDIS_URL: `127.0.0.1:${proxy.port}` },
      async strike() {
        for (let times = 0; times < 10; times++) {
          for (const connection of proxy.connections) broken.add(connection);
          await sleep(200);
        }
      },
      async stop() {
        await proxy.close();
        await server.stop();
      },
    };
  },
};

/** The same, with counters under envoyproxy/ratelimit's keys (`COUNTER_KEYS=reference`). */
export const onSharedCounters = (fault: Fault): Fault => ({
  ...fault,
  event: `${fault.event}, with \`COUNTER_KEYS=reference\``,
  areShared: true,
});

/** Faults of a single server, or of the connection to it. */
export const faultsOfOneServer: readonly Fault[] = [
  ...[restarted, reloaded, scriptsFlushed, frozen, paused, writesPaused],
  ...[busy, full, lockedOut, demoted, cutOff],
  ...[restarted, cutOff].map(onSharedCounters),
];
