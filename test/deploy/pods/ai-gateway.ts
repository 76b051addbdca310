/**
 * Weir's image in place of Envoy AI Gateway's rate limit service: with the command, arguments and environment of the
 * manifest in AI Gateway's source, and rules and descriptors as its translator and extension server make them for a
 * QuotaPolicy.
 */
import './stay-alive.ts';
import { join } from 'node:path';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { type Descriptor, startControlPlane } from '../../helpers/control-plane.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { report, startContainer } from '../../helpers/pod.ts';
import { accepts, start } from '../../helpers/process.ts';
import { goSource, redisServer } from '../../helpers/tools.ts';
import { containerOf, environmentOf } from './manifest.ts';
import { untilHealthy } from './probe.ts';

const { IMAGE_ROOT = '' } = process.env;
const source = await goSource('github.com/envoyproxy/ai-gateway');
const container = containerOf(
  join(source, 'tests/e2e/testdata/backend_quota_ratelimit.yaml'),
  'envoy-ai-gateway-ratelimit',
);

const redis = await start(await redisServer(), ['--port', '6379', '--save', '', '--appendonly', 'no']);
await redis.waitFor(() => accepts(6379));
const controlPlane = await startControlPlane({ port: 18_002 });
const weir = await startContainer({
  root: IMAGE_ROOT,
  command: [...container.command, ...(container.args ?? [])],
  env: environmentOf(container),
  user: 65_534,
});
const { node_id: nodeId } = await controlPlane.first();

const DOMAIN = 'ai-gateway-quota';
const quota = (limit: number) => ({ rate_limit: { unit: 'DAY', requests_per_unit: limit }, quota_mode: true });
const model = (name: string, more: object): Descriptor => ({ key: 'model_name_override', value: name, ...more });
const TENANT = 'rule-0-x-tenant|gold-match-0'; // rule 0, header x-tenant: gold
const DEFAULT_BUCKET = 'rule-1-match--1'; // for a model with one rule
const verdict = await controlPlane.serve('1', [
  {
    name: DOMAIN,
    domain: DOMAIN,
    descriptors: [
      {
        key: 'backend_name',
        value: 'default/openai',
        descriptors: [
          model('simple', quota(10)),
          model('tenants', {
            descriptors: [
              { key: TENANT, value: TENANT, ...quota(5) },
              { key: DEFAULT_BUCKET, value: DEFAULT_BUCKET, ...quota(20) },
            ],
          }),
          { key: 'model_name_override', ...quota(3) }, // serviceQuota: any other model
        ],
      },
    ],
  },
]);
await untilHealthy();
const client = createClient('envoy-ai-gateway-ratelimit.envoy-gateway-system:8081');

/**
 * Sends one descriptor for each bucket, below backend and model. `cost` is the usage of a finished stream; a request
 * counts 1 at its start.
 */
async function ask(modelName: string, buckets: readonly (string | undefined)[], cost?: number): Promise<number> {
  const descriptors: WireRequest['descriptors'] = buckets.map((bucket) => ({
    entries: [
      { key: 'backend_name', value: 'default/openai' },
      { key: 'model_name_override', value: modelName },
      ...(bucket === undefined ? [] : [{ key: bucket, value: bucket }]),
    ],
    limit: null,
    hits_addend: cost === undefined ? null : { value: cost },
    is_negative_hits: false,
  }));
  return (await client.send({ domain: DOMAIN, descriptors, hits_addend: 0 })).overall_code;
}

const simple = [
  await ask('simple', [undefined]),
  await ask('simple', [undefined], 12),
  await ask('simple', [undefined]),
];
const other = [await ask('any-other', [undefined], 3), await ask('any-other', [undefined])];
const both = [TENANT, DEFAULT_BUCKET];
const tenants = {
  begun: await ask('tenants', both),
  finished: await ask('tenants', both, 8),
  tenantIsOver: await ask('tenants', both), // the default bucket has room: AI Gateway's quota mode lets it pass
  spent: await ask('tenants', both, 20),
  bothAreOver: await ask('tenants', both),
};
const exit = await weir.stop();
report({ nodeId, args: container.args, verdict, simple, other, tenants, exit, output: weir.output() });
