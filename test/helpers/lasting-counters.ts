import { createHash } from 'node:crypto';
import type { RedisBackend } from '../../src/parts/redis/backend.ts';
import { type Script, script } from '../../src/parts/redis/script.ts';

/** Much longer than a test takes. */
const LONGER_MS = 3_600_000;

const text = script.text.replaceAll(/"PX",\s/g, `"PX", ${LONGER_MS} + `);

/**
 * Makes a `RedisBackend` keep counters longer than they are needed: Redis expires keys by its own clock, and where a
 * test's stands still, a counter that is good for a millisecond would be gone or not, by chance.
 */
export const lastingScript: Script = { text, sha1: createHash('sha1').update(text).digest('hex') };

/**
 * Options of a `RedisBackend` on a clock that stands still: no reply comes too late, and no counter expires, however
 * slow the machine is.
 */
export const onStillClock = {
  ...{ replay: true, monotonicMs: () => 0, slowMs: 60_000 },
  script: lastingScript,
} as const satisfies ConstructorParameters<typeof RedisBackend>[2];
