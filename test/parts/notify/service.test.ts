import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { kuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { startRedis } from '../../helpers/redis.ts';
import { startUdpStatsd } from '../../helpers/statsd.ts';
import { until } from '../../helpers/until.ts';
import { startWeir } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5, notify: [80%, 100%] }
  - key: model
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { unit: day, requests_per_unit: 5, reserve: { ttl: 60s }, notify: [80%] } }
  - key: quiet
    rate_limit: { unit: day, requests_per_unit: 1 }
`;

interface Event {
  readonly percent: number;
  readonly descriptor: string;
}

const folder = mkdtempSync(join(tmpdir(), 'notify-'));
writeFileSync(join(folder, 'rules.yaml'), RULES);
afterAll(() => rmSync(folder, { recursive: true }));

test.each(['1', '2'])(
  'with %s workers, a webhook, the log, StatsD and operators are told once of each share',
  async (workers) => {
    const events: Event[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part) => {
        body += part;
      });
      request.on('end', () => {
        events.push(...JSON.parse(body).data.events);
        response.end();
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const statsd = await startUdpStatsd();
    const redis = workers === '1' ? undefined : await startRedis();
    const weir = await startWeir(
      {
        WORKERS: workers,
        ...(redis && { BACKEND_TYPE: 'redis', REDIS_URL: redis.url }),
        NOTIFY_WEBHOOK_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        NOTIFY_WEBHOOK_SECRET: 'secret',
        ADMIN_TOKEN: 'operator',
        USE_STATSD: 'true',
        STATSD_HOST: '127.0.0.1',
        STATSD_PROTOCOL: 'udp',
        STATSD_PORT: String(statsd.port),
        STATS_FLUSH_INTERVAL: '1s',
      },
      { args: ['--rules', join(folder, 'rules.yaml')] },
    );
    try {
      const spend = (key: string) =>
        fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
          method: 'POST',
          headers: { connection: 'close' },
          body: JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key, value: 'ann' }] }] }),
        });
      for (let hit = 0; hit < 12; hit++) await spend('user');
      await spend('quiet');
      await until('both shares are sent', () => events.length >= 2);
      const list = async () => {
        const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/notifications`, {
          headers: { authorization: 'Bearer operator' },
        });
        return answer.json();
      };
      expect(events.map(({ percent, descriptor }) => [percent, descriptor])).toEqual([
        [80, 'user=ann'],
        [100, 'user=ann'],
      ]);
      expect(await list()).toMatchObject({
        notifications: [
          { percent: 100, used: 5, rule: 'demo.user', limit: '5 per day' },
          { percent: 80, used: 4 },
        ],
        dropped: 0,
        waiting: 0,
      });
      expect(weir.output()).toContain('user=ann has used 80 % of 5 per day (demo.user)');
      await statsd.until((lines) =>
        lines.some((line) => /^ratelimit\.service\.rate_limit\.demo\.user\.notified:\d\|c/.test(line)),
      );
    } finally {
      await weir.stop();
      await statsd.close();
      await redis?.stop();
      server.close();
    }
  },
);

test('without NOTIFY, operators read how to turn it on', async () => {
  const weir = await startWeir({ ADMIN_TOKEN: 'operator' }, { args: ['--rules', join(folder, 'rules.yaml')] });
  const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/notifications`, {
    headers: { authorization: 'Bearer operator' },
  });
  expect([answer.status, await answer.text()]).toEqual([
    404,
    expect.stringContaining('set NOTIFY or NOTIFY_WEBHOOK_URL'),
  ]);
  await weir.stop();
});

test('hits that Kuadrant reports, hits of a batch, and reservations pass shares as well', async () => {
  const weir = await startWeir(
    { NOTIFY: 'true', ADMIN_TOKEN: 'operator' },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
  const requestOf = (value: string): WireRequest => ({
    domain: 'demo',
    descriptors: [
      { entries: [{ key: 'user', value }], limit: null, hits_addend: { value: 4 }, is_negative_hits: false },
    ],
    hits_addend: 0,
  });
  const kuadrant = new Client(`127.0.0.1:${weir.grpcPort}`, credentials.createInsecure());
  await new Promise<void>((resolve, reject) => {
    const method = kuadrantService.Report as unknown as MethodDefinition<object, object>; // by its file
    kuadrant.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      requestOf('kuadrant'),
      (error) => (error ? reject(error) : resolve()),
    );
  });
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  await client.decide([requestOf('batch')]);
  const held = {
    domain: 'demo',
    descriptors: [
      {
        entries: [
          { key: 'model', value: 'm' },
          { key: 'id', value: '1' },
        ],
      },
    ],
  };
  await fetch(`http://127.0.0.1:${weir.httpPort}/holds/reserve`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: { ...held, hitsAddend: 4 } }),
  });
  const list = async (): Promise<readonly string[]> => {
    const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/notifications`, {
      headers: { authorization: 'Bearer operator' },
    });
    const { notifications } = (await answer.json()) as { readonly notifications: readonly Event[] };
    return notifications.map(({ descriptor, percent }) => `${descriptor} ${percent}`);
  };
  await until('all are listed', async () => (await list()).length === 3);
  expect((await list()).toSorted()).toEqual(['model=m 80', 'user=batch 80', 'user=kuadrant 80']);
  client.close();
  kuadrant.close();
  await weir.stop();
});

test('the log warns once of rules with notify while nobody is told', async () => {
  const weir = await startWeir({}, { args: ['--rules', join(folder, 'rules.yaml')] });
  await weir.waitFor('rules have notify, which has no effect: set NOTIFY=true or NOTIFY_WEBHOOK_URL');
  await weir.stop();
});

test('the log does not warn of metadata with a list named notify', async () => {
  const rules = join(folder, 'metadata.yaml');
  writeFileSync(
    rules,
    RULES.replace(', notify: [80%] }', ' }').replace(
      'notify: [80%, 100%] }',
      '}\n    metadata: { notify: [80%, 100%] }',
    ),
  );
  const weir = await startWeir({ ADMIN_TOKEN: 'operator' }, { args: ['--rules', rules] });
  const headers = { authorization: 'Bearer operator' };
  expect((await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/notifications`, { headers })).status).toBe(404);
  expect(weir.output()).not.toContain('rules have notify');
  await weir.stop();
});
