import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createClient, type GrpcClient } from '../helpers/grpc-client.ts';
import { startRedis } from '../helpers/redis.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

/** Blocks of addresses in the built service and command line. */

const RULES = fileURLToPath(new URL('../../config/examples/allow-list.yaml', import.meta.url));

let weir: Weir;
let client: GrpcClient;
afterEach(async () => {
  client.close();
  await weir.stop();
});

async function start(settings: Readonly<Record<string, string>> = {}): Promise<void> {
  weir = await startWeir({ USE_STATSD: 'false', ...settings }, { args: ['--rules', RULES] });
  client = createClient(`127.0.0.1:${weir.grpcPort}`);
}

/** The code of a call over gRPC that asks for one descriptor. */
async function ask(address: string, hits = 1): Promise<unknown> {
  const entries = [{ key: 'remote_address', value: address }];
  const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
  const { overall_code } = await client.send({ domain: 'allow-list', descriptors, hits_addend: hits });
  return overall_code;
}

test.each(['one process', 'two workers, which get their rules in pieces'])(
  'a service with %s admits allowed networks, and limits others',
  async (processes) => {
    const redis = processes === 'one process' ? undefined : await startRedis();
    try {
      await start(redis ? { WORKERS: '2', REDIS_URL: redis.url } : {});
      const ok = await ask('10.1.2.3', 1_000_000);
      const over = await ask('203.0.113.9', 101);
      expect(over).not.toEqual(ok);
      expect([await ask('::ffff:10.1.2.3', 1_000_000), await ask('fd00::7', 1_000_000)]).toEqual([ok, ok]);
      expect([await ask('10.99.0.1', 20), await ask('10.99.0.2', 20)]).toEqual([ok, ok]);
      expect(await ask('198.51.100.1', 31)).toEqual(over);
    } finally {
      await redis?.stop();
    }
  },
);

test('weir explain and /rlconfig show the blocks of a running service', async () => {
  await start();
  const explained = await new Promise<string>((resolve) => {
    const env = { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, NO_COLOR: '1' };
    const args = [MAIN, 'explain', '--rules', RULES, 'allow-list', 'remote_address=10.99.0.1'];
    execFile(process.execPath, args, { env }, (_error, stdout, stderr) => resolve(`${stdout}${stderr}`));
  });
  expect(explained).toContain('matches remote_address in 10.99.0.0/16');
  expect(explained).toContain('not remote_address in 10.0.0.0/8 192.168.0.0/16 fd00::/8 203.0.113.7: a longer block');
  const listed = await (await fetch(`http://127.0.0.1:${weir.debugPort}/rlconfig`)).text();
  expect(listed).toContain('allow-list.remote_address_10.99.0.0/16: unit=MINUTE requests_per_unit=20');
  expect(listed).toContain('allow-list.remote_address_10.0.0.0/8: ');
});
