import { envoy, ghz, goControlPlane, grpcurl, redisServer } from './tools.ts';

/** Installs every tool once, before the first test, so that no test's time limit pays for a download. */
export default async function setup(): Promise<void> {
  await Promise.all([redisServer(), envoy(), ghz(), grpcurl(), goControlPlane()]);
}
