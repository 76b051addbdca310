import '../../helpers/realm.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RuleBook } from '../../../src/engine/rules/reload/book.ts';
import { openDiscoveredRules } from '../../../src/parts/xds/book.ts';
import { type Authority, createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { type ControlPlane, type ControlPlaneOptions, startControlPlane } from '../../helpers/control-plane.ts';
import { eventually } from '../../helpers/until.ts';

const authority = createAuthority();
const other = createAuthority();
const own = authority.issue('127.0.0.1', 'control-plane.example');

let folder: string;
let controlPlane: ControlPlane;
type ControlPlaneTls = NonNullable<Parameters<typeof openDiscoveredRules>[0]['tls']>;

let book: RuleBook | undefined;
let events: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'xds-'));
  book = undefined;
  events = [];
  trust(authority);
});
afterEach(() => {
  book?.close();
  controlPlane.stop();
});

const start = async (tls: Partial<ControlPlaneOptions['tls']> = {}): Promise<void> => {
  controlPlane = await startControlPlane({ tls: { certificate: own, ...tls } });
};

function open(tls: Partial<ControlPlaneTls> = {}): void {
  const files = { caFile: join(folder, 'ca.crt'), certFile: undefined, keyFile: undefined, serverName: undefined };
  book = openDiscoveredRules(
    {
      serverUrl: `127.0.0.1:${controlPlane.port}`,
      nodeId: 'node-1',
      nodeMetadata: new Map(),
      additionalHeaders: new Map(),
      tls: { ...files, ...tls },
      backOff: { initialMs: 100, maxMs: 200, jitter: false },
      maxMessageBytes: 4 * 1024 * 1024,
    },
    {
      mergeDomains: false,
      onLoad: ({ ok }) => events.push(ok ? 'loaded' : 'refused'),
      onUp: () => events.push('up'),
      onDown: (reason) => events.push(`down: ${reason}`),
    },
  );
}

/** Writes the authority's certificate to the file of trusted certificates. */
const trust = (of: Authority): void => void writeCertificate(folder, 'ca', of);

/** The files of a client certificate for the control plane. */
function clientFiles(of: Authority) {
  const { cert: certFile, key: keyFile } = writeCertificate(folder, 'client', of.issue('weir'));
  return { certFile, keyFile };
}

/** Expects that rules arrive. */
async function expectRules(): Promise<void> {
  expect(await controlPlane.serve('v1', [])).toEqual({ ack: 'v1' });
  expect(events.slice(-2)).toEqual(['up', 'loaded']);
}

/** Expects that no stream is established, for a matching reason. */
async function expectDown(reason: RegExp): Promise<void> {
  await eventually(() => events.length > 0);
  expect(events).toEqual([expect.stringMatching(reason)]);
  expect(controlPlane.streamCount()).toBe(0);
}

test('rules arrive over TLS', async () => {
  await start();
  open();
  await expectRules();
});

test('a control plane with an untrusted certificate is refused', async () => {
  trust(other);
  await start();
  open();
  await expectDown(/^down: UNAVAILABLE: .*(unable to verify|self-signed|certificate)/);
});

test('a control plane with a private CA is refused if no CA is configured', async () => {
  await start();
  open({ caFile: undefined });
  await expectDown(/^down: UNAVAILABLE: .*(unable to verify|self-signed|certificate)/);
});

test('a control plane whose certificate has another name than its host is refused', async () => {
  await start({ certificate: authority.issue('control-plane.example') });
  open();
  await expectDown(/^down: UNAVAILABLE: .*(altnames|does not match|not in the cert)/i);
});

test('a configured name is accepted in place of the host', async () => {
  await start({ certificate: authority.issue('control-plane.example') });
  open({ serverName: 'control-plane.example' });
  await expectRules();
});

test('a configured name is the only one accepted', async () => {
  await start();
  open({ serverName: 'another.example' });
  await expectDown(/^down: UNAVAILABLE: .*(altnames|does not match|not in the cert)/i);
});

test('a control plane that requires a client certificate receives one', async () => {
  await start({ clientAuthority: authority });
  open(clientFiles(authority));
  await expectRules();
});

test.each<[string, () => Partial<ControlPlaneTls>]>([
  ['without one', () => ({})],
  ['with one of another authority', () => clientFiles(other)],
])('a control plane that requires a client certificate gets no stream from a client %s', async (_, files) => {
  await start({ clientAuthority: authority });
  open(files());
  await expectDown(/^down: UNAVAILABLE: /);
});

test('certificate files are read again for each connection', async () => {
  trust(other);
  await start();
  open();
  await eventually(() => events.length > 0);
  trust(authority);
  await expectRules();
});

test('invalid certificate files delay the connection until they are fixed', async () => {
  await start();
  open();
  await expectRules();
  rmSync(join(folder, 'ca.crt'));
  await controlPlane.hangUp();
  await eventually(() => events.length === 4);
  await sleep(300); // several tries
  expect(events).toEqual(['up', 'loaded', 'down: it ended the stream', expect.stringMatching(/^down: .*ENOENT/)]);
  trust(authority);
  await expectRules();
});

describe('opening the rules fails', () => {
  test.each<[string, () => Partial<ControlPlaneTls>, RegExp]>([
    ['without the file of the authority', () => ({ caFile: join(folder, 'none') }), /ENOENT.*none/],
    ['with a certificate without its key', () => ({ ...clientFiles(authority), keyFile: undefined }), /private key/i],
    [
      'with the key of another certificate',
      () => {
        const { certFile } = clientFiles(authority);
        return { certFile, keyFile: writeCertificate(folder, 'other', other.issue('weir')).key };
      },
      /key values mismatch/,
    ],
  ])('%s', async (_, files, message) => {
    await start();
    expect(() => open(files())).toThrow(message);
  });
});
