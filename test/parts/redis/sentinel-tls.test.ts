import '../../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { openCounters, takeHit } from '../../helpers/counters.ts';
import { freePort, start } from '../../helpers/process.ts';
import { startRedis } from '../../helpers/redis.ts';
import { clientOf } from '../../helpers/redis-topologies.ts';
import { redisServer } from '../../helpers/tools.ts';
import { eventually } from '../../helpers/until.ts';

const folder = mkdtempSync(join(tmpdir(), 'sentinel-tls-'));
const closing: (() => unknown)[] = [() => rmSync(folder, { recursive: true })];
afterAll(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

test('a sentinel and its master are used over TLS only, each with its own user and password', async () => {
  const authority = createAuthority();
  const ca = writeCertificate(folder, 'ca', authority).cert;
  const { cert, key } = writeCertificate(folder, 'server', authority.issue('localhost', '127.0.0.1'));
  const files = { 'tls-cert-file': cert, 'tls-key-file': key, 'tls-ca-cert-file': ca, 'tls-auth-clients': 'no' };
  const port = await freePort();
  const tlsArguments = Object.entries(files).flatMap(([name, value]) => [`--${name}`, value]);
  const master = await startRedis({ args: ['--tls-port', String(port), ...tlsArguments] });
  closing.push(() => master.stop());
  const operator = clientOf(master);
  closing.push(() => operator.disconnect());
  await operator.acl('SETUSER', 'counting', 'on', '>c0unter', 'allcommands', 'allkeys', 'allchannels');

  const sentinelPort = await freePort();
  const config = join(folder, 'sentinel.conf');
  const lines = [
    ...['port 0', `tls-port ${sentinelPort}`, 'tls-replication yes', 'bind 127.0.0.1', `dir ${folder}`],
    ...Object.entries(files).map(([name, value]) => `${name} ${value}`),
    ...['user watching on >w4tcher allcommands allkeys allchannels', 'user default off'],
    `sentinel monitor mymaster 127.0.0.1 ${port} 1`,
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
  const sentinel = await start(await redisServer(), [config, '--sentinel'], { name: 'sentinel' });
  closing.push(() => sentinel.stop());
  const watcher = clientOf({ port: sentinelPort }, 'w4tcher', {
    ...{ username: 'watching', enableReadyCheck: false },
    tls: { ca: authority.cert },
  });
  closing.push(() => watcher.disconnect());
  await eventually(async () =>
    String(await watcher.call('SENTINEL', 'CKQUORUM', 'mymaster').catch(String)).startsWith('OK'),
  );

  const counters = await openCounters({
    REDIS_TYPE: 'SENTINEL',
    REDIS_URL: `mymaster,rediss://watching:w4tcher@127.0.0.1:${sentinelPort}`,
    REDIS_AUTH: 'counting:c0unter',
    REDIS_TLS_CACERT: ca,
  });
  closing.push(counters.close);
  await eventually(() => counters.problem() === '', counters.problem);
  expect(await takeHit(counters)).toMatchObject({ code: 'OK' });
  const own = String(await operator.call('CLIENT', 'LIST'))
    .split('\n')
    .find((line) => line.includes(' name=weir '));
  expect(own).toContain(' user=counting ');
  expect(counters.lines()).toEqual([]);
});
