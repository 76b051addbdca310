import '../helpers/realm.ts';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type GrpcTarget, wholeEnvoy } from '../../src/parts/envoy/whole-envoy.ts';
import { startQuotaEnvoy } from '../helpers/quota-envoy.ts';
import { eventually } from '../helpers/until.ts';
import { startWeir } from '../helpers/weir.ts';

/** Quotas of two possible backends of a request, with AI Gateway's names. */
const RULES = `
domain: ai-gateway-quota
descriptors:
  - key: backend_name
    value: default/reserved
    descriptors: [{ key: model_name_override, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 2 } }]
  - key: backend_name
    value: default/on-demand
    descriptors: [{ key: model_name_override, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 3 } }]
`;

const passed = (...names: readonly string[]) =>
  names.map((name) => ({ backend_name: `default/${name}`, model_name_override: 'gpt-4o' }));

const METADATA = '%DYNAMIC_METADATA(envoy.filters.http.ratelimit:passedDescriptors)%';
const SPARED = '%DYNAMIC_METADATA(envoy.filters.http.ratelimit:weir:would_refuse)%';

/** The quota that is over while the other one lets the request pass. */
const spared = {
  descriptor: 0,
  rule: 'ai-gateway-quota.backend_name_default/reserved.model_name_override',
  limit: '2 per year',
  reason: 'quota',
};

const folder = mkdtempSync(join(tmpdir(), 'passed-'));
const [rules, envoyLog, upstreamLog] = ['rules.yaml', 'envoy.log', 'upstream.log'].map((name) => join(folder, name));

const logTo = (path = '', line = ''): string =>
  `access_log: ${JSON.stringify([
    {
      name: 'envoy.access_loggers.file',
      typed_config: {
        '@type': 'type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog',
        ...{ path, log_format: { text_format_source: { inline_string: `${line}\n` } } },
      },
    },
  ])}`;

/**
 * Sends the descriptors of both backends in one call, logs the names in the answer, and forwards them to the upstream.
 */
const asking = (weir: GrpcTarget): string =>
  wholeEnvoy(
    {
      manager: `                ${logTo(envoyLog, `[${METADATA},${SPARED}]`)}\n`,
      filter: `name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: ai-gateway-quota
                      timeout: 60s
                      failure_mode_deny: true
                      rate_limit_service: { transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: weir } } }`,
      virtualHost: `                      request_headers_to_add: [{ header: { key: x-passed, value: "${METADATA}" } }]
                      rate_limits:
                        - actions:
                            - generic_key: { descriptor_key: backend_name, descriptor_value: default/reserved }
                            - request_headers: { header_name: x-model, descriptor_key: model_name_override }
                        - actions:
                            - generic_key: { descriptor_key: backend_name, descriptor_value: default/on-demand }
                            - request_headers: { header_name: x-model, descriptor_key: model_name_override }
`,
      route: '{ cluster: upstream }',
    },
    weir,
  );

const linesOf = (path = ''): readonly unknown[] => {
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line.replace(/,-]$/, ',null]')));
};

test("a real Envoy has passedDescriptors and the quotas that would have refused in the rate limit filter's metadata", async () => {
  writeFileSync(rules ?? '', RULES);
  const settings = { RESPONSE_PASSED_DESCRIPTORS: 'true', RULES_PATH: rules ?? '', USE_STATSD: 'false' };
  const weir = await startWeir(settings);
  const envoy = await startQuotaEnvoy(RULES, weir.grpcPort, {
    print: (_, __, at) => asking(at),
    edit: (config) =>
      config.replace(
        'stat_prefix: upstream',
        `stat_prefix: upstream\n                ${logTo(upstreamLog, '%REQ(X-PASSED)%')}`,
      ),
  });
  try {
    const answers: boolean[] = [];
    for (let at = 0; at < 4; at++) answers.push(await envoy.passes({ 'x-model': 'gpt-4o' }));
    expect(answers).toEqual([true, true, true, false]);
    await eventually(() => linesOf(envoyLog).length === 4 && linesOf(upstreamLog).length === 3);
    const both = passed('reserved', 'on-demand');
    expect(linesOf(envoyLog)).toEqual([
      [both, null],
      [both, null],
      [passed('on-demand'), [spared]],
      [[], null],
    ]);
    expect(linesOf(upstreamLog)).toEqual([both, both, passed('on-demand')]);
  } finally {
    await Promise.all([envoy.stop(), weir.stop()]);
  }
});
