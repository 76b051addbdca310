import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readUsage } from '../../proof/processes/process-tree.ts';
import { type RawClient, rawClient } from '../helpers/raw-client.ts';
import { eventually } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const MIB = 1024 * 1024;
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}
  - {key: queue, rate_limit: {unit: hour, requests_per_unit: 60, algorithm: leaky_bucket, max_delay: 1h}}
`;

let folder: string;
let weir: Weir;
let clients: RawClient[];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'hostile-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
});
afterEach(async () => {
  for (const { socket } of clients) socket.destroy();
  await weir.stop();
});

async function start(env: Record<string, string>): Promise<void> {
  clients = [];
  weir = await startWeir(env, { args: ['--rules', folder] });
}

async function open(): Promise<RawClient> {
  const client = await rawClient(weir.httpPort);
  clients.push(client);
  return client;
}

const asking = (key: string): string => `{"domain": "demo", "descriptors": [{"entries": [{"key": "${key}"}]}]}`;
const posting = (body: string): string =>
  `POST /json HTTP/1.1\r\nhost: weir\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

async function expectAnswers(): Promise<void> {
  const client = await open();
  client.write(posting(asking('user')));
  await client.receives('200 OK');
  client.socket.destroy();
}

test('many unfinished bodies stay within their memory limit, and do not affect other callers', async () => {
  await start({ CALLER_MEMORY_BYTES: String(32 * MIB) });
  const first = await open();
  first.write(posting(asking('user')));
  await first.receives('200 OK');
  const before = readUsage(weir.pid).memoryBytes;
  const unfinished = posting(' '.repeat(MIB)).slice(0, -1);
  const crowd = await Promise.all(Array.from({ length: 60 }, open));
  for (const client of crowd) client.write(unfinished);
  const left = () => crowd.filter(({ socket }) => !socket.destroyed).length;
  await eventually(() => left() * 4 <= 32); // a body is charged four times its octets
  first.write(posting(asking('user')));
  await first.receives('200 OK', 2);
  await expectAnswers();
  expect((readUsage(weir.pid).memoryBytes - before) / MIB).toBeLessThan(100);
});

test('callers that disconnect free their slots, even if their calls would be delayed for up to an hour', async () => {
  await start({ MAX_IN_FLIGHT_CALLS: '10' });
  const ask = async (key: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body: asking(key) })).status;
  expect(await ask('queue')).toBe(200);
  const crowd = await Promise.all(Array.from({ length: 10 }, open));
  for (const one of crowd) one.write(posting(asking('queue')));
  await eventually(async () => (await ask('user')) === 400); // too many calls
  for (const { socket } of crowd) socket.destroy();
  await eventually(async () => (await ask('user')) === 200);
});

test('HTTP_MAX_CONNECTIONS connections with open requests are kept, and further ones are closed', async () => {
  await start({ HTTP_MAX_CONNECTIONS: '3' });
  const kept = await Promise.all([open(), open(), open()]);
  const request = posting(asking('user'));
  for (const one of kept) {
    one.write(`GET /healthcheck HTTP/1.1\r\nhost: weir\r\n\r\n${request.slice(0, -1)}`);
    await one.receives('200 OK'); // the service has read from it
  }
  await (await open()).ended;
  expect(kept.map(({ socket }) => socket.destroyed)).toEqual([false, false, false]);
  kept[0]?.write(request.slice(-1));
  await kept[0]?.receives('200 OK', 2);
});
