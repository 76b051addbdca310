import type { Redis as Connection } from 'ioredis';
import type { Operation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { encodeBatch } from '../../../src/engine/backends/redis/batch.ts';
import { decodeBatch } from '../../../src/engine/backends/redis/batch-reply.ts';
import { script } from '../../../src/engine/backends/redis/script.ts';
import type { SiteTransfer } from '../../../src/engine/holds/claim.ts';
import type { SiteShareLimit } from '../../../src/engine/holds/site-share.ts';
import { Random } from '../../../src/parts/simulate/random.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { siteShareOf } from '../../helpers/limits.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const START_MS = 1_700_000_000_000;

let server: Redis;
let connection: Connection;
let sha: string;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
  sha = String(await connection.script('LOAD', script.text));
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

/** Hits, and both sides of transfers, in any order and epoch. */
function anyOperation(random: Random, key: CounterKey, limit: SiteShareLimit, nowMs: number): Operation {
  const epochMs = limit.of === 'token_bucket' ? 60_000 : limit.windowMs;
  const epoch = nowMs - (nowMs % epochMs) - (random.uniform() < 0.1 ? epochMs : 0);
  const peer = random.below(limit.sites);
  const transfers: readonly (SiteTransfer | undefined)[] = [
    undefined,
    undefined,
    { kind: 'read' },
    { kind: 'lend', peer, epochMs: epoch, taken: random.below(30), among: 1 + random.below(3) },
    {
      kind: 'take',
      peer,
      epochMs: epoch,
      given: random.below(60),
      sentMs: nowMs - random.below(1_200),
      repliedMs: nowMs,
    },
  ];
  const transfer = transfers[random.below(transfers.length)];
  const kind = transfer?.kind === 'read' ? 'peek' : !transfer && random.uniform() < 0.1 ? 'give_back' : 'spend';
  const hits = transfer?.kind === 'read' ? 0 : random.below(12);
  return { kind, key, limit, hits, blocks: true, ...(transfer && { transfer }) };
}

test.each(['fixed_window', 'token_bucket'] as const)(
  'the twins agree exactly about %s that is lent and taken',
  async (of) => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = new Random(seed);
      const sites = 2 + random.below(4);
      const site = random.below(sites);
      const maxErrorPercent = random.below(3) * 10;
      const more = { of, sites, site, maxErrorPercent, burst: sites + random.below(200) };
      const limit = siteShareOf(1 + random.below(300), 1_000 * (1 + random.below(5)), more);
      const key = `twins|${of}|${seed}` as CounterKey; // any text will do
      const clock = fakeClock(START_MS + random.below(60_000));
      const memory = createMemoryBackend(clock, { maxCounters: 10 });
      for (let step = 0; step < 50; step++) {
        clock.advance(random.uniform() < 0.05 ? random.below(61_000) : random.below(300));
        const operation = anyOperation(random, key, limit, clock());
        const batch = encodeBatch([{ operations: [operation], spend: 'each' }], clock());
        const { keys, packed } = batch;
        const transaction = connection.multi();
        transaction.callBuffer('EVALSHA', sha, keys.length, ...keys, packed, clock());
        for (const one of keys) transaction.persist(one); // time follows the schedule's clock
        const [[error, reply] = []] = (await transaction.exec()) ?? [];
        if (error) throw error;
        const [inLua] = decodeBatch(reply as Buffer, batch); // the script replies with bytes
        expect(inLua).toEqual(await memory.run([operation], { spend: 'each', timeoutMs: 1 }));
      }
    }
  },
);
