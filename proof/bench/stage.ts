import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openReady } from '../../test/helpers/connection.ts';
import { type Redis, startRedis } from '../../test/helpers/redis.ts';
import type { Generator } from './generator/generator.ts';
import { PROBE, type Shape } from './shapes.ts';
import type { Service, Subject } from './subjects.ts';

/** A running service with its rules and, if it needs one, its Redis. */
export interface Stage {
  readonly subject: Subject;
  readonly service: Service;
  /** Undefined if counters are in memory. */
  readonly redisPid: number | undefined;
  clear(): Promise<void>;
}

const PROBES = 100;

/** Starts a service for a shape, with its own Redis if it needs one. */
export async function setStage(subject: Subject, shape: Shape, generator: Generator): Promise<Stage> {
  const clearing: (() => Promise<unknown>)[] = [];
  const clear = async () => {
    for (const step of clearing.splice(0).reverse()) await step();
  };
  try {
    const folder = await mkdtemp(join(tmpdir(), 'bench-'));
    clearing.push(() => rm(folder, { recursive: true }));
    const redis = shape.store === 'redis' ? await startRedis() : undefined;
    if (redis) clearing.push(redis.stop);
    const service = await subject.start(shape, { folder, redisUrl: redis?.url });
    clearing.push(service.stop);
    await waitForRules(subject, service, generator);
    return { subject, service, redisPid: redis && (await readPid(redis)), clear };
  } catch (error) {
    await clear();
    throw error;
  }
}

/** Waits until the service applies its rules, since without rules it would answer too, and fast. */
async function waitForRules({ name }: Subject, { port }: Service, generator: Generator): Promise<void> {
  const pace = { kind: 'closed', callsInFlight: 1, end: { calls: 2 } } as const;
  for (let at = 0; at < PROBES; at++) {
    const { answers } = await generator.drive({ port, connections: 1, pace, question: PROBE });
    if (answers.OVER_LIMIT > 0) return;
  }
  throw new Error(`${name} must answer OVER_LIMIT to calls over the limit of a rule, got OK ${2 * PROBES} times`);
}

async function readPid(redis: Redis): Promise<number> {
  const connection = await openReady(redis);
  try {
    return Number(/process_id:(\d+)/.exec(await connection.info('server'))?.[1]);
  } finally {
    connection.disconnect();
  }
}
