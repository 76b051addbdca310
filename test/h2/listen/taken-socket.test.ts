import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { readIntoSharedBuffer } from '../../../src/h2/listen/taken-socket.ts';

const server = createServer({ pauseOnConnect: true });
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => void server.close());

/** Both ends of a new connection. */
async function open(): Promise<{ readonly client: Socket; readonly served: Socket }> {
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  return { client, served: readIntoSharedBuffer((await accepted)[0]) };
}

test('all connections read into one buffer', async () => {
  const chunks: { readonly text: string; readonly memory: ArrayBufferLike }[] = [];
  for (const text of ['one', 'two']) {
    const { client, served } = await open();
    const read = once(
      served.on('data', (chunk) => chunks.push({ text: `${chunk}`, memory: chunk.buffer })),
      'data',
    );
    client.write(text);
    await read;
    client.destroy();
  }
  expect(chunks.map(({ text }) => text)).toEqual(['one', 'two']);
  expect(chunks[1]?.memory).toBe(chunks[0]?.memory);
});

test('a paused connection is not read until it is resumed', async () => {
  const { client, served } = await open();
  const texts: string[] = [];
  served.on('data', (chunk) => texts.push(`${chunk}`));
  served.pause();
  client.write('late');
  await sleep(100); // enough for the data to arrive
  expect(texts).toEqual([]);
  const read = once(served, 'data');
  served.resume();
  await read;
  expect(texts).toEqual(['late']);
  client.destroy();
});

test('the last input of a client is read before its connection ends', async () => {
  const { client, served } = await open();
  const texts: string[] = [];
  served.on('data', (chunk) => texts.push(`${chunk}`));
  const closed = once(served, 'close');
  client.end('last words');
  await closed; // its own side ends with the client's
  expect(texts.join('')).toBe('last words');
});
