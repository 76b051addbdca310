import '../../helpers/realm.ts';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { GrpcClient } from '../../helpers/grpc-client.ts';
import { freePort, start } from '../../helpers/process.ts';
import { startUdpStatsd } from '../../helpers/statsd.ts';
import { until } from '../../helpers/until.ts';

import {
  client,
  clients,
  folder,
  LIMIT,
  OK,
  page,
  queued,
  RULES,
  redis,
  refusedService,
  service,
  stats,
  stops,
  TOTAL_HITS,
  untilCounted,
} from './workers.ts';

test('workers together admit exactly the limit, and have common statistics', async () => {
  const weir = await service({ LOCAL_CACHE_SIZE_IN_BYTES: '1000000' });
  expect(weir.output()).toContain('  workers   3 processes\n');
  const calls = clients(weir, 20).flatMap((client) => Array.from({ length: 10 }, () => client.ask()));
  const answers = await Promise.all(calls);
  expect(answers.filter(({ overall_code }) => overall_code === OK)).toHaveLength(LIMIT);

  const CALLS = 'ratelimit_server.ShouldRateLimit.total_requests';
  await untilCounted(weir, 200);
  await until('200 calls', async () => (await stats(weir))[CALLS] === 200);
  const told = await stats(weir);
  expect(told).toMatchObject({
    [TOTAL_HITS]: 200,
    'ratelimit.service.rate_limit.demo.user.within_limit': LIMIT,
    'ratelimit.service.rate_limit.demo.user.over_limit': 150,
    [CALLS]: 200,
    'ratelimit.service.config_load_success': 1,
    'ratelimit.localcache.lookupCount': 200,
  });
  const metrics = await page(weir.debugPort, '/metrics');
  expect(metrics).toContain('weir_hits_total{domain="demo",rule="user",algorithm="fixed_window"} 200\n');
  expect(metrics).toContain('weir_call_duration_seconds_count{method="ShouldRateLimit",grpc_status="0"} 200\n');
  expect(metrics).toContain('weir_ready 1\n');
});

test('workers load changed rules, and each load is counted once', async () => {
  const weir = await service();
  const loaded = (times: number) =>
    until(`${times} loads`, async () => (await stats(weir))['ratelimit.service.config_load_success'] === times);
  const hasLimit = async ({ ask }: GrpcClient) => Boolean((await ask()).statuses[0]?.current_limit);
  const rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES.replace('key: user', 'key: account'));
  await loaded(2);
  for (const one of clients(weir, 6)) await until('no limit', async () => !(await hasLimit(one)));
  writeFileSync(rules, RULES);
  await loaded(3);
  for (const one of clients(weir, 6)) await until('a limit', () => hasLimit(one));
});

test('rules in many messages reach every worker completely', async () => {
  const descriptors = Array.from({ length: 2_000 }, (_, at) => ({
    ...{ key: 'user', value: `user-${at}` },
    rate_limit: { unit: 'year', requests_per_unit: at + 1 },
  }));
  writeFileSync(join(folder, 'rules.yaml'), JSON.stringify({ domain: 'demo', descriptors }));
  const weir = await service({ WORKERS: '2' });
  for (const one of clients(weir, 6)) {
    const entries = [{ key: 'user', value: 'user-1999' }];
    const answer = await one.send({ ...queued, descriptors: [{ ...queued.descriptors[0], entries }] } as typeof queued);
    expect(answer.statuses[0]?.current_limit).toMatchObject({ requests_per_unit: 2_000 });
  }
});

test('workers send their statistics together', async () => {
  const statsd = await startUdpStatsd();
  stops.push(statsd.close);
  const [USE_STATSD, STATSD_PROTOCOL, STATSD_HOST, STATSD_PORT] = ['true', 'udp', '127.0.0.1', String(statsd.port)];
  const weir = await service({ USE_STATSD, STATSD_PROTOCOL, STATSD_HOST, STATSD_PORT });
  await Promise.all(clients(weir, 9).map((one) => one.ask()));
  await weir.stop(); // sends the last report
  const sent = (name: string) => statsd.lines().filter((line) => line.startsWith(`${name}:`));
  await statsd.until(() => sent('ratelimit_server.ShouldRateLimit.response_time').length === 9);
  const hits = sent('ratelimit.service.rate_limit.demo.user.total_hits').map((line) =>
    Number(/:(\d+)\|c/.exec(line)?.[1]),
  );
  expect(hits.reduce((sum, count) => sum + count, 0)).toBe(9);
});

test('workers share a unix socket, even a stale one', async () => {
  const socket = join(folder, 'weir.sock');
  const left = await start(process.execPath, [
    '-e',
    `require('node:net').createServer().listen('${socket}', () => console.log('there'))`,
  ]);
  await left.waitFor('there');
  await left.stop('SIGKILL');
  const onSocket = await service({ GRPC_UDS: socket });
  for (const one of Array.from({ length: 4 }, () => client(`unix:${socket}`)))
    expect(await one.ask()).toMatchObject({ overall_code: OK });

  await onSocket.stop();
  await expect(client(`unix:${socket}`).ask()).rejects.toThrow('UNAVAILABLE');
});

test('an occupied port stops start-up, and is reported once', async () => {
  const occupied = createServer().listen(await freePort(), '127.0.0.1');
  stops.push(() => occupied.close());
  await once(occupied, 'listening');
  const { port } = occupied.address() as { readonly port: number }; // a TCP port
  const refused = await refusedService({ WORKERS: '3', REDIS_URL: redis.url, GRPC_PORT: String(port) });
  expect(refused).toEqual({
    code: 1,
    output: expect.stringMatching(/^weir: GRPC_PORT: cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE.*\n$/),
  });
});
