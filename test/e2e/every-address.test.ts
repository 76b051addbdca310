import { networkInterfaces } from 'node:os';
import { createClient } from '../helpers/grpc-client.ts';
import { freePort } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { startWeir } from '../helpers/weir.ts';

const hasIPv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
const ADDRESSES = ['127.0.0.1', ...(hasIPv6 ? ['[::1]'] : [])];

test.each([
  ['0.0.0.0', 'h2', '1'],
  ['', 'grpc-js', '1'],
  ['::', 'h2', '2'],
])(
  'with the host %j, %s and %s workers, every port answers on IPv4, and on IPv6 where it exists',
  async (host, transport, workers) => {
    const [redis, prometheus] = [await startRedis(), await freePort()];
    const weir = await startWeir({
      ...{ HOST: host, GRPC_HOST: host, DEBUG_HOST: host, GRPC_TRANSPORT: transport, WORKERS: workers },
      ...{ USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `:${prometheus}`, REDIS_URL: redis.url },
    });
    try {
      for (const address of ADDRESSES) {
        const client = createClient(`${address}:${weir.grpcPort}`);
        expect(await client.ask('unknown')).toMatchObject({ overall_code: 1 });
        client.close();
        const pages = [`${weir.httpPort}/healthcheck`, `${weir.debugPort}/stats`, `${prometheus}/metrics`];
        for (const page of pages) expect((await fetch(`http://${address}:${page}`)).status).toBe(200);
      }
    } finally {
      await weir.stop();
      await redis.stop();
    }
  },
);
