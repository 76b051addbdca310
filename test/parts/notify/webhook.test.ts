import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import '../../helpers/realm.ts';
import { Webhook } from '../../../src/parts/notify/webhook.ts';
import { until } from '../../helpers/until.ts';

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const NOW_MS = Date.UTC(2026, 0, 1) + 1_999;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A server that answers with these statuses, and then with 200. */
async function startReceiver(statuses: readonly number[] = []) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => {
      body += part;
    });
    request.on('end', () => {
      response.statusCode = statuses[received.length] ?? 200;
      received.push({ headers: request.headers, body });
      response.end();
    });
  });
  closing.push(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, received };
}

function openWebhook(url: string, secret?: string) {
  const states: string[] = [];
  const pauses: number[] = [];
  const webhook = new Webhook({
    url,
    secret,
    clock: () => NOW_MS,
    state: { works: () => void states.push('works'), failed: (error) => void states.push(String(error)) },
    sleep: async (ms) => void pauses.push(ms),
  });
  return { webhook, states, pauses };
}

const eventsOf = ({ body }: Received) => JSON.parse(body).data.events;

test.each([
  ['whsec_c2VjcmV0', Buffer.from('secret')],
  ['any text', Buffer.from('any text')],
])('requests are signed with %s, as Standard Webhooks says', async (secret, key) => {
  const { url, received } = await startReceiver();
  openWebhook(url, secret).webhook.add([{ percent: 80 }]);
  await until('the event arrives', () => received.length === 1);
  const [{ headers, body } = { headers: {}, body: '' }] = received;
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
  expect(headers['webhook-timestamp']).toBe(String(Date.UTC(2026, 0, 1) / 1_000 + 1));
  expect(JSON.parse(body)).toMatchObject({
    type: 'limit.share_passed',
    timestamp: '2026-01-01T00:00:01.999Z',
    data: { events: [{ percent: 80 }] },
  });
});

test('events that are added while others are sent, or later, are sent next', async () => {
  const { url, received } = await startReceiver();
  const { webhook } = openWebhook(url);
  const sent = () => received.flatMap(eventsOf).length;
  webhook.add([{ at: 1 }]);
  webhook.add([{ at: 2 }]);
  await until('the first two are sent', () => webhook.waiting === 0);
  await new Promise((resolve) => setImmediate(resolve)); // it has stopped sending
  webhook.add([{ at: 3 }]);
  await until('the third is sent', () => sent() === 3);
  expect(received.map(eventsOf)).toEqual([[{ at: 1 }], [{ at: 2 }], [{ at: 3 }]]);
});

test('a request that is not accepted is repeated with the same id, after growing pauses', async () => {
  const { url, received } = await startReceiver([500, 503]);
  const { webhook, states, pauses } = openWebhook(url);
  webhook.add([{ percent: 80 }]);
  await until('the event is accepted', () => webhook.waiting === 0);
  expect(received.map(eventsOf)).toEqual(Array(3).fill([{ percent: 80 }]));
  expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
  expect(received[0]?.headers['webhook-signature']).toBeUndefined();
  expect(pauses.slice(0, 2)).toEqual([1_000, 2_000]);
  expect(states.at(-1)).toBe('works');
  expect(states[0]).toContain('it answers with status 500');
});

test('a server that accepts nothing costs bounded memory and requests, and what is dropped is counted', async () => {
  const { url, received } = await startReceiver(Array(8).fill(500));
  const { webhook } = openWebhook(url);
  webhook.add(Array.from({ length: 1_200 }, (_, at) => ({ at })));
  expect([webhook.waiting, webhook.dropped]).toEqual([1_000, 200]);
  await until('all are sent or dropped', () => webhook.waiting === 0);
  expect(webhook.dropped).toBe(300); // the first hundred after eight attempts
  expect(received).toHaveLength(8 + 9);
});

test('a server that cannot be reached is a failure that operators see', async () => {
  const { webhook, states } = openWebhook('http://127.0.0.1:1/');
  webhook.add([{ percent: 80 }]);
  await until('the attempts are over', () => webhook.waiting === 0);
  expect([webhook.dropped, states.includes('works')]).toEqual([1, false]);
  expect(states[0]).toMatch(/bad port|ECONNREFUSED/);
});

test('a redirect is not followed, and named', async () => {
  const { url } = await startReceiver([302]);
  const { webhook, states } = openWebhook(url);
  webhook.add([{ percent: 80 }]);
  await until('the second attempt', () => webhook.waiting === 0);
  expect(states).toEqual([expect.stringContaining('it answers with status 302'), 'works']);
});

test('user and password in the URL are sent in a header, and never shown', async () => {
  const { url, received } = await startReceiver([500]);
  const { webhook, states } = openWebhook(url.replace('//', '//ann:s%40cret@'));
  webhook.add([{ percent: 80 }]);
  await until('the event is accepted', () => webhook.waiting === 0);
  expect(received[0]?.headers.authorization).toBe(`Basic ${btoa('ann:s@cret')}`);
  expect(states.join()).not.toContain('cret');
});
