import '../helpers/realm.ts';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, credentials } from '@grpc/grpc-js';
import { type Running, start } from '../helpers/process.ts';

const h2 = fileURLToPath(new URL('../../src/h2/', import.meta.url));
const [, example = ''] = /^```ts\n(.*?)^```/ms.exec(readFileSync(join(h2, 'README.md'), 'utf8')) ?? [];

let folder: string;
let server: Running;
let client: Client;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'readme-'));
  const file = join(folder, 'example.mts');
  writeFileSync(file, example.replaceAll("from './", `from '${h2}`));
  server = await start(process.execPath, ['--import', 'tsx', file]);
  await server.waitFor('listening on ');
  const [, target = ''] = /listening on (\S+)/.exec(server.output()) ?? [];
  client = new Client(target, credentials.createInsecure());
});
afterAll(async () => {
  client?.close();
  await server?.stop();
});

const encode = (text: string): Buffer => Buffer.from(text);
const decode = (bytes: Buffer): string => bytes.toString();

test('the example of the page serves a unary method', async () => {
  const answer = new Promise((resolve, reject) =>
    client.makeUnaryRequest('/demo.Text/Upper', encode, decode, 'hello', (error, text) =>
      error ? reject(error) : resolve(text),
    ),
  );
  expect(await answer).toBe('HELLO');
});

test('the example of the page serves a bidirectional stream', async () => {
  const stream = client.makeBidiStreamRequest('/demo.Text/Echo', encode, decode);
  for (const text of ['one', 'two']) stream.write(text);
  stream.end();
  const texts: string[] = [];
  for await (const text of stream) texts.push(text);
  expect(texts).toEqual(['one', 'two']);
});
