/**
 * A process of concurrency.test.ts: one instance's store, with hits as fast as it answers.
 *
 * Takes a port as its argument, then jobs as messages: { prefix, limits, counters, spend, calls, inFlight }. Each call hits
 * all limits of one counter; the answer has the admitted calls.
 */
import { once } from 'node:events';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { operationOf } from '../../helpers/operations.ts';

const redis = connect({
  address: { kind: 'tcp', host: '127.0.0.1', port: Number(process.argv[2]), tls: false, database: 0 },
  tls: undefined,
  sentinelCredentials: {},
  connectTimeoutMs: 2_000,
  startup: { initialMs: 50, maxMs: 500 },
});
await once(redis, 'ready');
redis.options.socketTimeout = undefined; // a busy server may be silent
const store = new RedisBackend(redis, Date.now, { slowMs: 60_000 });

process.on('message', async ({ prefix, limits, counters, spend, calls, inFlight }) => {
  const result = { unavailable: 0, whole: new Array(counters).fill(0), each: limits.map(() => 0), soft: 0 };
  let next = 0;
  const caller = async () => {
    while (next < calls) {
      const counter = next++ % counters;
      const hits = limits.map((limit, at) => operationOf({ key: `${prefix}${counter}|${at}` }, limit, 1, true));
      const decisions = await store.run(hits, { spend, timeoutMs: 60_000 });
      if (decisions.some(({ code }) => code === 'UNAVAILABLE')) result.unavailable++;
      if (decisions.every(({ code }) => code === 'OK')) result.whole[counter]++;
      if (decisions.some(({ soft }) => soft)) result.soft++;
      for (const [at, { code }] of decisions.entries()) if (code === 'OK') result.each[at]++;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  process.send(result);
});
process.send('ready');
