import '../../helpers/realm.ts';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Certificates, openCertificates } from '../../../src/h2/listen/certificates.ts';
import { noPeerCounts } from '../../../src/operate/observe/site-counts.ts';
import { openSiteChannel, startSiteServer } from '../../../src/parts/sites/channel.ts';
import { Lender } from '../../../src/parts/sites/lender.ts';
import type { SiteAsk } from '../../../src/parts/sites/messages.ts';
import { type Authority, createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { ownLimitsOf, siteShareOf } from '../../helpers/limits.ts';
import { until } from '../../helpers/until.ts';

const START_MS = 1_700_000_040_000; // the start of a minute
const SITES = ['east', 'west'];

const limit = siteShareOf(100, 60_000, { site: 1 });
const authority = createAuthority();
let folder: string;
let lender: Lender;
let server: Awaited<ReturnType<typeof startSiteServer>>;
type SiteChannel = ReturnType<typeof openSiteChannel>;
const channels: SiteChannel[] = [];
const opened: Certificates[] = [];

/** Writes a site's files. */
function write(name: string, by: Authority, trusted = by) {
  const { cert, key } = writeCertificate(folder, name, by.issue('127.0.0.1'));
  return { cert, key, clientCa: writeCertificate(folder, `${name}-authority`, trusted).cert };
}

/** A site's certificates. */
function tlsOf(name: string, by = authority): Certificates {
  const certificates = openCertificates(write(name, by, authority), Date.now, () => {});
  opened.push(certificates);
  return certificates;
}

function connect(...options: Parameters<typeof openSiteChannel> extends [string, ...infer R] ? R : never): SiteChannel {
  const channel = openSiteChannel(`127.0.0.1:${server.port}`, ...options);
  channels.push(channel);
  return channel;
}

const ask: SiteAsk = {
  ...{ counter: 'site_share|fixed_window|60000/2.names|1:d|1:k|1:v', algorithm: 'fixed_window' },
  ...{ requests_per_unit: 100, window_ms: 60_000, burst: 100, epoch_ms: START_MS, taken: 0, hits: 20 },
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sites-'));
  const clock = fakeClock(START_MS);
  const main = createMemoryBackend(clock, { maxCounters: 100 });
  const ledger = ledgerOf(main, { clock, monotonicMs: clock });
  const peers = [
    { site: 'east', place: 0, counts: noPeerCounts(), borrow: () => Promise.reject(new Error('nothing is asked')) },
  ];
  lender = new Lender({
    ...{ ledger, timeoutMs: 1_000, monotonicMs: clock, prefix: '', peers },
    ...{ sites: SITES, lost: [], limits: ownLimitsOf(limit) },
  });
  server = await startSiteServer({ host: '127.0.0.1', port: 0 }, tlsOf('west'), lender);
});
afterAll(async () => {
  for (const one of [...channels, ...opened]) one.close();
  await server.close();
});

/** A deadline for a busy machine. */
const patient = () => Date.now() + 30_000;

test('a site lends hits to a site with a certificate of the same authority, as a growing sum', async () => {
  const channel = connect(tlsOf('east'), patient);
  const request = { site: 'east', sites: SITES, asks: [ask] };
  expect(await channel.borrow(request)).toEqual({
    loans: [{ is_lent: true, given: 20, now_ms: START_MS, used: 0 }],
  });
  expect(await channel.borrow({ ...request, asks: [{ ...ask, hits: 1_000 }] })).toEqual({
    loans: [{ is_lent: true, given: 46, now_ms: START_MS, used: 0 }], // it keeps 4 of its 50
  });
});

test('a site lends nothing of another epoch or of counters that are not shared', async () => {
  const channel = connect(tlsOf('east'), patient);
  const asks = [
    { ...ask, epoch_ms: START_MS - 60_000 },
    { ...ask, counter: 'fixed_window.2|60000|1:d|1:k|1:v' },
    { ...ask, algorithm: 'leaky_bucket' },
  ];
  const { loans } = await channel.borrow({ site: 'east', sites: SITES, asks });
  expect(loans.map(({ is_lent: isLent }) => isLent)).toEqual([false, false, false]);
});

test('a site that names other sites is refused', async () => {
  const channel = connect(tlsOf('east'), patient);
  const request = { site: 'east', sites: ['east', 'north', 'west'], asks: [ask] };
  await expect(channel.borrow(request)).rejects.toThrow(
    'this site shares limits with east, west; east with east, north, west',
  );
});

test('a certificate of another authority is refused', async () => {
  const channel = connect(tlsOf('stranger', createAuthority()), patient);
  await expect(channel.borrow({ site: 'east', sites: SITES, asks: [ask] })).rejects.toThrow();
});

test('a connection without TLS is refused', async () => {
  const channel = connect(undefined, patient);
  await expect(channel.borrow({ site: 'east', sites: SITES, asks: [ask] })).rejects.toThrow();
});

test('both directions follow a rotation to another authority without a restart', async () => {
  const west = tlsOf('west-rotated');
  let site = await startSiteServer({ host: '127.0.0.1', port: 0 }, west, lender);
  const connectTo = (certificates: Certificates): SiteChannel => {
    const channel = openSiteChannel(`127.0.0.1:${site.port}`, certificates, patient);
    channels.push(channel);
    return channel;
  };
  const borrows = (channel: SiteChannel): Promise<boolean> =>
    channel.borrow({ site: 'east', sites: SITES, asks: [ask] }).then(
      () => true,
      () => false,
    );
  const before = tlsOf('east-before');
  const east = tlsOf('east-rotated');
  const connected = connectTo(east);
  expect(await borrows(connected)).toBe(true);

  const next = createAuthority();
  const read = [west, east].map((site) => site.current());
  write('west-rotated', next);
  write('east-rotated', next);
  // before any connection: each that is polled counts, and beyond 100 the server drops the oldest
  await until('both have read the new files', () => [west, east].every((site, at) => site.current() !== read[at]));
  await until('a refusal of the old authority', async () => !(await borrows(connectTo(before))));
  await until('an answer to the new one', () => borrows(connectTo(east)));
  expect(await borrows(connected)).toBe(true); // on its old connection

  await site.close();
  site = await startSiteServer({ host: '127.0.0.1', port: site.port }, west, lender);
  await until('an answer on a new connection', () => borrows(connected));
  await site.close();
});
