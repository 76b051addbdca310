/**
 * Weir's image in place of envoyproxy/ratelimit in Envoy Gateway's deployment: command, environment, user, certificates
 * and probes come from the manifests in Envoy Gateway's source; rules and descriptors from the expected output of its
 * translator's tests.
 */
import './stay-alive.ts';
import { mkdtempSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { type Resource, startControlPlane } from '../../helpers/control-plane.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { report, startContainer } from '../../helpers/pod.ts';
import { accepts, start } from '../../helpers/process.ts';
import { goSource, redisServer } from '../../helpers/tools.ts';
import { containerOf, environmentOf, readAllYaml } from './manifest.ts';
import { startProbing, untilHealthy } from './probe.ts';

/** An action of a route in the output of Envoy Gateway's tests: one member is set. */
interface Action {
  readonly ActionSpecifier: Readonly<
    Record<string, { readonly descriptor_key: string; readonly descriptor_value?: string }>
  >;
}
interface RouteLimits {
  readonly rateLimitsByDomain: Readonly<Record<string, readonly { readonly actions: readonly Action[] }[]>>;
}

const { IMAGE_ROOT = '' } = process.env;
const gateway = await goSource('github.com/envoyproxy/gateway');
const testdata = join(gateway, 'internal/infrastructure/kubernetes/ratelimit/testdata');
const translated = join(gateway, 'internal/xds/translator/testdata/out/ratelimit-config');
const container = containerOf(join(testdata, 'deployments/default.yaml'), 'envoy-ratelimit');

const authority = createAuthority();
const certs = mkdtempSync(join(tmpdir(), 'certs-'));
writeCertificate(certs, 'tls', authority.issue('envoy-ratelimit', 'envoy-gateway'));
renameSync(writeCertificate(certs, 'ca', authority).cert, join(certs, 'ca.crt'));

const redis = await start(await redisServer(), ['--port', '6379', '--save', '', '--appendonly', 'no']);
await redis.waitFor(() => accepts(6379));
const controlPlane = await startControlPlane({
  port: 18_001,
  tls: { certificate: authority.issue('envoy-gateway'), clientAuthority: authority },
});

const user = container.securityContext?.runAsUser ?? 0;
const weir = await startContainer({
  root: IMAGE_ROOT,
  command: container.command,
  env: environmentOf(container),
  user,
  mounts: { '/certs': certs },
});
await untilHealthy();
const probing = startProbing();
const { node_id: nodeId } = await controlPlane.first();
const client = createClient('envoy-ratelimit:8081', credentials.createSsl(Buffer.from(authority.cert)));

/** The entry that Envoy makes from an action; a value from the request is arbitrary. */
function entryOf({ ActionSpecifier: specifier }: Action): { key: string; value: string } {
  const [[kind, action] = ['', undefined]] = Object.entries(specifier);
  return { key: action?.descriptor_key ?? '', value: action?.descriptor_value ?? `from ${kind}` };
}

const asked: WireRequest[] = [];

async function play(name: string): Promise<object> {
  const verdict = await controlPlane.serve(name, readAllYaml(join(translated, `${name}.yaml`)) as Resource[]); // the messages' JSON
  const routes = readAllYaml(join(translated, `${name}.routes.yaml`)) as RouteLimits[]; // see Action
  const unlimited: object[] = [];
  let descriptors = 0;
  for (const [domain, limits] of routes.flatMap(({ rateLimitsByDomain }) => Object.entries(rateLimitsByDomain))) {
    for (const { actions } of limits) {
      const entries = actions.map(entryOf);
      const descriptor = { entries, limit: null, hits_addend: null, is_negative_hits: false };
      const request = { domain, descriptors: [descriptor], hits_addend: 1 };
      const { statuses } = await client.send(request);
      asked.push(request);
      descriptors++;
      if (!statuses[0]?.current_limit) unlimited.push({ domain, entries });
    }
  }
  return { name, verdict, descriptors, unlimited };
}

const cases: object[] = [];
for (const file of readdirSync(translated).filter((name) => name.endsWith('.routes.yaml')))
  cases.push(await play(basename(file, '.routes.yaml')));

/** Far above any limit, so that hits count as near and over it. */
const [request] = asked.slice(-1);
if (request) await client.send({ ...request, hits_addend: 1_000 });

const status = readFileSync(`/proc/${weir.pid}/status`, 'utf8');
const metrics = await (await fetch('http://127.0.0.1:19001/metrics')).text();
const probes = await probing.stop();
const exit = await weir.stop();
report({ nodeId, user, cases, ...probes, status, metrics, exit, output: weir.output() });
