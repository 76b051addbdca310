import { envoy, ghz, goControlPlane, grpcurl, memcached, redisServer, valkeyServer } from './tools.ts';

/** Installs every tool once, before the first test, so that no test's time limit pays for a download. */
export default async function setup(): Promise<void> {
  await redisServer().then(memcached); // apt-get runs once at a time
  await Promise.all([valkeyServer(), envoy(), ghz(), grpcurl(), goControlPlane()]);
}
