import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  actionlint,
  bubblewrap,
  chromium,
  composeLoader,
  cyclonedxSchemas,
  envoy,
  fish,
  ghz,
  goControlPlane,
  goSource,
  grpcio,
  grpcurl,
  h2load,
  h2spec,
  hadolint,
  helm,
  imageBase,
  kubeconform,
  kubernetesSchemas,
  kustomize,
  memcached,
  newestNode,
  nftables,
  promtool,
  redis6Server,
  redisServer,
  valkeyServer,
  zsh,
} from './tools.ts';

/**
 * Installs every tool before the first test, so that downloads do not count towards a test's timeout. Temporary files of
 * the tests are in a folder that teardown.ts removes.
 */
export default async function setup(): Promise<void> {
  process.env.TMPDIR = mkdtempSync(join(tmpdir(), 'weir-tests-'));
  await redisServer();
  if (process.env.TESTS === 'quick' || process.env.TESTS === 'mutants') return;
  await memcached().then(h2load).then(bubblewrap).then(nftables).then(chromium).then(promtool).then(zsh).then(fish); // apt-get runs once at a time
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
  await Promise.all([hadolint(), kubernetesSchemas(), cyclonedxSchemas(), imageBase()]);
  await goSource('github.com/envoyproxy/gateway').then(() => goSource('github.com/envoyproxy/ai-gateway'));
  await goSource('istio.io/api').then(() => goSource('github.com/prometheus-operator/prometheus-operator'));
  for (const build of [kubeconform, actionlint, kustomize, composeLoader, helm]) await build(); // one at a time: each build uses all processors
}
