import '../../helpers/realm.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plain, startHttpServer } from '../../../src/edge/http/server.ts';
import { openCertificates } from '../../../src/h2/listen/certificates.ts';
import { openSiteChannel, startSiteServer } from '../../../src/parts/sites/channel.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { type RawClient, rawClient } from '../../helpers/raw-client.ts';
import { until } from '../../helpers/until.ts';

const HOST = '127.0.0.1';
/** The most connections of an operators' port, and of the port for other sites. */
const FULL = 100;
const TOKEN = 'authorization: Bearer secret';

const closers: (() => unknown)[] = [];
const clients: RawClient[] = [];
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  for (const close of closers.splice(0).reverse()) await close();
});

const authority = createAuthority();

/** @param forSites  clients need a certificate, too */
function certificates(forSites = false) {
  const folder = mkdtempSync(join(tmpdir(), 'ports-'));
  const clientCa = forSites ? writeCertificate(folder, 'authority', authority).cert : undefined;
  const files = { ...writeCertificate(folder, 'own', authority.issue(HOST)), clientCa };
  const opened = openCertificates(files, Date.now, () => {});
  closers.push(() => {
    opened.close();
    rmSync(folder, { recursive: true });
  });
  return opened;
}

async function open(port: number, text = ''): Promise<RawClient> {
  const client = await rawClient(port);
  clients.push(client);
  if (text !== '') client.write(text);
  return client;
}

async function fill(port: number, count: number, text = ''): Promise<void> {
  for (let opened = 0; opened < count; opened++) await open(port, text);
}

async function operatorsPort(tls?: ReturnType<typeof certificates>): Promise<number> {
  const routes = new Map([
    ['/good', { help: '', answer: () => plain(200, 'good') }],
    ['/endless', { help: '', answer: () => ({ ...plain(200, 'begun'), follow: () => {} }) }],
  ]);
  const address = { host: HOST, port: 0 };
  const server = await startHttpServer(address, routes, () => {}, {
    isChecked: ({ headers }) => headers.authorization === 'Bearer secret',
    ...(tls && { tls }),
  });
  closers.push(() => server.close(0));
  return server.port;
}

const get = (path: string, header = ''): string =>
  `GET ${path} HTTP/1.1\r\nhost: weir\r\n${header && `${header}\r\n`}\r\n`;

test('a scrape with a token is answered while clients without one hold event streams and unfinished bodies', async () => {
  const port = await operatorsPort();
  await fill(port, FULL / 2, get('/endless'));
  await fill(port, FULL / 2, 'POST /good HTTP/1.1\r\nhost: weir\r\ncontent-length: 9\r\n\r\n1');
  await until('all streams have begun', () => clients.slice(0, FULL / 2).every((one) => one.received() !== ''));
  const scraper = await open(port, get('/good', TOKEN));
  await scraper.receives('good');
  await fill(port, 2 * FULL, get('/endless'));
  scraper.write(get('/good', TOKEN));
  await scraper.receives('good', 2);
});

test('clients whose token was checked keep their places, even if they are idle', async () => {
  const port = await operatorsPort();
  const holders: RawClient[] = [];
  for (let count = 0; count < FULL; count++) {
    const holder = await open(port, get('/good', TOKEN));
    await holder.receives('good');
    holders.push(holder);
  }
  const other = await open(port, get('/good'));
  await other.ended;
  expect(other.received()).toBe('');
  for (const holder of holders) holder.write(get('/good', TOKEN));
  for (const holder of holders) await holder.receives('good', 2);
});

test('an operators’ port with TLS counts connections before their handshake, and makes room for others', async () => {
  const port = await operatorsPort(certificates());
  await fill(port, FULL);
  const status = new Promise((resolve, reject) => {
    const options = { host: HOST, port, path: '/good', ca: authority.cert, agent: false };
    request(options, (response) => resolve(response.resume().statusCode))
      .on('error', reject)
      .end();
  });
  expect(await status).toBe(200);
  await clients[0]?.ended;
});

test.each([
  ['with TLS', () => certificates(true)],
  ['without TLS', () => undefined],
])('the port for other sites %s is bounded before anything is sent, and makes room for sites', async (_, of) => {
  const tls = of();
  const lender = { lend: async () => ({ loans: [] }) };
  const server = await startSiteServer({ host: HOST, port: 0 }, tls, lender);
  closers.push(() => server.close());
  await fill(server.port, FULL + 20);
  await clients[19]?.ended;
  const channel = openSiteChannel(`${HOST}:${server.port}`, tls, () => Date.now() + 30_000);
  closers.push(() => channel.close());
  expect(await channel.borrow({ site: 'east', sites: ['east'], asks: [] })).toEqual({ loans: [] });
});
