import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileSteps } from '../../deploy/lua/compile.ts';
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
  MissingTool,
  memcached,
  newestNode,
  nftables,
  promtool,
  redis6Server,
  redisServer,
  valkeyServer,
  zsh,
} from '../helpers/tools.ts';

/** Functions that return a tool, and install it if necessary; those of a group run one after another. */
type Group = readonly (() => Promise<unknown>)[];

/** apt-get runs once at a time. */
const debian = [redisServer, memcached, h2load, chromium];
const packages: readonly Group[] = [[redis6Server], [valkeyServer], [envoy], [grpcio]];
/** Builds use all processors. */
const builds = [ghz, grpcurl, h2spec, goControlPlane];

const ofLongSuites: readonly Group[] = [
  [bubblewrap, nftables, promtool, zsh, fish, imageBase],
  [newestNode],
  [hadolint],
  [kubernetesSchemas],
  [cyclonedxSchemas],
  [
    () => goSource('github.com/envoyproxy/gateway'),
    () => goSource('github.com/envoyproxy/ai-gateway'),
    () => goSource('istio.io/api'),
    () => goSource('github.com/prometheus-operator/prometheus-operator'),
  ],
  [kubeconform, actionlint, kustomize, composeLoader, helm],
];

/**
 * Compiles steps that have changed, and installs tools before the first test, so that downloads do not count towards a test's timeout. Temporary files of the
 * tests are in a folder that teardown.ts removes.
 */
export default async function setup(): Promise<void> {
  await compileSteps();
  process.env.TMPDIR = mkdtempSync(join(tmpdir(), 'weir-tests-'));
  const { TESTS } = process.env;
  if (TESTS === 'mutants') return installAll([[redisServer]]);
  await installAll([debian, ...packages, builds]);
  if (TESTS !== 'short') await installAll(ofLongSuites);
}

/** On CI all must be there; elsewhere the tests that need a missing tool are skipped. */
async function installAll(groups: readonly Group[]): Promise<void> {
  await Promise.all(
    groups.map(async (group) => {
      for (const install of group) await install().catch(rememberMissing);
    }),
  );
}

function rememberMissing(error: unknown): void {
  if (!(error instanceof MissingTool) || process.env.CI === 'true') throw error;
  const { MISSING_TOOLS = '' } = process.env;
  process.env.MISSING_TOOLS = `${MISSING_TOOLS}${error.why}\n`; // for the processes that run the tests: ../helpers/tools.ts
  process.stderr.write(`${error.message}; the tests that need it are skipped\n`);
}
