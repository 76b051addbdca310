import {
  envoy,
  ghz,
  goControlPlane,
  grpcio,
  grpcurl,
  h2load,
  h2spec,
  memcached,
  newestNode,
  promtool,
  redis6Server,
  redisServer,
  valkeyServer,
} from './tools.ts';

/** Installs every tool once, before the first test, so that no test's time limit pays for a download. */
export default async function setup(): Promise<void> {
  await redisServer();
  if (process.env.TESTS === 'quick') return;
  await memcached().then(h2load).then(promtool); // apt-get runs once at a time
  await Promise.all([
    redis6Server(),
    valkeyServer(),
    envoy(),
    grpcio(),
    ghz(),
    grpcurl(),
    h2spec(),
    goControlPlane(),
    newestNode(),
  ]);
}
