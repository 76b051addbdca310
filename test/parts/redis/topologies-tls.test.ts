import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import type { ClientTls } from '../../../src/engine/backends/tls.ts';
import { parseAddress } from '../../../src/settings/redis-address.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { addressOf } from '../../helpers/connection.ts';
import { freePort } from '../../helpers/process.ts';
import { startRedis } from '../../helpers/redis.ts';
import { clientOf } from '../../helpers/redis-topologies.ts';
import { eventually } from '../../helpers/until.ts';

import { apply, type ConnectOptions, closing, hitOn, isNew, isReady, newKey, open } from './opened-store.ts';

describe('over TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'redis-tls-'));
  const authority = createAuthority();
  const ca = writeCertificate(folder, 'ca', authority).cert;
  const otherCa = writeCertificate(folder, 'other', createAuthority()).cert;
  const server = writeCertificate(folder, 'server', authority.issue('localhost', '127.0.0.1'));
  const named = writeCertificate(folder, 'named', authority.issue('redis.example.com'));
  const client = writeCertificate(folder, 'client', authority.issue('weir'));

  async function startTls({ cert, key }: { readonly cert: string; readonly key: string }, clients: 'yes' | 'no') {
    const port = await freePort();
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', ca];
    const redis = await startRedis({ args: ['--tls-port', String(port), ...files, '--tls-auth-clients', clients] });
    closing.push(() => redis.stop());
    return addressOf({ port });
  }
  const tls = (changes: Partial<ClientTls> = {}): Partial<ConnectOptions> => ({
    tls: { caFile: ca, certFile: '', keyFile: '', skipHostnameVerification: false, ...changes },
  });

  test('sends its client certificate if one is required', async () => {
    const address = await startTls(server, 'yes');
    const store = open(address, tls({ certFile: client.cert, keyFile: client.key }));
    await isReady(store);
    expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
    const without = open(address, tls());
    await eventually(() => !isNew(without));
    expect(await apply(without, hitOn(newKey()))).toMatchObject([{ code: 'UNAVAILABLE' }]);
  });

  test('speaks TLS with the user and the password of the URLs of a Cluster', async () => {
    const port = await freePort();
    const files = ['--tls-cert-file', server.cert, '--tls-key-file', server.key, '--tls-ca-cert-file', ca];
    const args = ['--tls-port', String(port), ...files, '--tls-auth-clients', 'no', '--cluster-enabled', 'yes'];
    const own = [
      '--tls-cluster',
      'yes',
      '--cluster-announce-ip',
      '127.0.0.1',
      '--cluster-port',
      String(await freePort()),
    ];
    const redis = await startRedis({
      args: [...args, ...own],
    });
    closing.push(() => redis.stop());
    const operator = clientOf(redis);
    await operator.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await operator.acl('SETUSER', 'weir', 'on', '>s3cret', 'allcommands', 'allkeys');
    await operator.acl('SETUSER', 'default', 'off');
    operator.disconnect();
    const nothing = { socket: undefined, auth: undefined };
    const address = parseAddress(`rediss://weir:s3cret@127.0.0.1:${port}`, 'CLUSTER', nothing);
    if (!address || 'refusal' in address) throw new Error('expected an address');
    const store = open(address, tls());
    await isReady(store);
    expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  });

  test.each<[string, string, (file: string) => void]>([
    ['a server', 'half written', (file) => writeFileSync(file, 'not written yet')],
    ['a Cluster', 'missing', (file) => rmSync(file)],
  ])(
    'reads its files for each connection to %s: a rotation of certificate and authority, with %s meanwhile, needs no restart',
    async (kind, _, spoil) => {
      const own = mkdtempSync(join(folder, 'rotated-'));
      const [port, busPort] = [await freePort(), await freePort()];
      const isCluster = kind === 'a Cluster';
      const [oldOne, newOne] = [authority, createAuthority()];
      const files = { caFile: join(own, 'ca.crt'), certFile: join(own, 'weir.crt'), keyFile: join(own, 'weir.key') };
      const rotate = (to: typeof authority) => {
        if (existsSync(files.certFile)) spoil(files.certFile); // a rotation is not atomic
        return () => {
          writeFileSync(files.caFile, to.cert);
          const { cert, key } = to.issue('weir');
          writeFileSync(files.certFile, cert);
          writeFileSync(files.keyFile, key);
        };
      };
      const startOf = async (name: string, to: typeof authority) => {
        const { cert, key } = writeCertificate(own, name, to.issue('localhost', '127.0.0.1'));
        const of = [
          '--tls-cert-file',
          cert,
          '--tls-key-file',
          key,
          '--tls-ca-cert-file',
          writeCertificate(own, `${name}-ca`, to).cert,
        ];
        const asNode = ['--cluster-enabled', 'yes', '--cluster-port', String(busPort), '--tls-cluster', 'yes'];
        const args = ['--tls-port', String(port), ...of, '--tls-auth-clients', 'yes', ...(isCluster ? asNode : [])];
        const redis = await startRedis({ args });
        const operator = clientOf(redis);
        if (isCluster) await operator.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
        operator.disconnect();
        return redis;
      };
      rotate(oldOne)();
      const before = await startOf('before', oldOne);
      const node = { host: '127.0.0.1', port };
      const store = open(isCluster ? { kind: 'cluster', nodes: [node] } : addressOf(node), tls({ ...files }));
      await isReady(store);
      const finish = rotate(newOne);
      await before.stop();
      const after = await startOf('after', newOne);
      closing.push(() => after.stop());
      await eventually(() => !store.health().ready);
      finish();
      await isReady(store);
      expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
    },
  );

  test('reports that the server’s or its own certificate has expired, and counts again when it is renewed', async () => {
    const own = mkdtempSync(join(folder, 'expired-'));
    const late = writeCertificate(own, 'server', authority.issueExpired('localhost', '127.0.0.1'));
    const store = open(await startTls(late, 'no'), tls());
    const reason = (of: Backend) => {
      const health = of.health();
      return health.ready ? 'ready' : health.reason;
    };
    await eventually(
      () => /expired/.test(reason(store)),
      () => reason(store),
    );
    expect(await apply(store, hitOn(newKey()))).toMatchObject([
      { code: 'UNAVAILABLE', reason: expect.stringContaining('expired') },
    ]);

    const mine = writeCertificate(own, 'weir', authority.issueExpired('weir'));
    const shown = { certFile: mine.cert, keyFile: mine.key };
    const refused = open(await startTls(server, 'yes'), tls(shown));
    await eventually(
      () => /expired/.test(reason(refused)),
      () => reason(refused),
    );
    writeCertificate(own, 'weir', authority.issue('weir'));
    await isReady(refused);
    expect(await apply(refused, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  });

  test("does not count if the server's certificate has another authority or another name", async () => {
    const [right, wrong] = await Promise.all([startTls(server, 'no'), startTls(named, 'no')]);
    const strangers = [open(right, tls({ caFile: otherCa })), open(wrong, tls())];
    for (const store of strangers) {
      await eventually(() => !isNew(store));
      expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'UNAVAILABLE' }]);
    }
    const lenient = open(wrong, tls({ skipHostnameVerification: true }));
    await isReady(lenient);
    expect(await apply(lenient, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  });
});
