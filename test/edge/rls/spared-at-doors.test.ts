import '../../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import { decideBatch, shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import type { WireRequest, WireResponse } from '../../../src/edge/wire/wire.ts';
import { kuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { fromStruct } from '../../../src/protobuf/struct.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';

const RULES = `
domain: demo
descriptors:
  - { key: trial, shadow_mode: true, rate_limit: { name: proposed, unit: year, requests_per_unit: 1 } }
  - { key: spent, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 0 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1000000 } }
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1 } }
`;
const MAPPING = `domain: demo
rate_limits:
  - actions: [{ request_headers: { header_name: x-trial, descriptor_key: trial } }]
`;
const HEADER = 'X-Would-Refuse';

const folder = mkdtempSync(join(tmpdir(), 'spared-'));
let redis: Redis;
let services: Readonly<Record<'plain' | 'shadow', Administered>>;
let client: Client;

beforeAll(async () => {
  redis = await startRedis();
  writeFileSync(join(folder, 'mapping.yaml'), MAPPING);
  const told = { LIMIT_WOULD_REFUSE_HEADER: HEADER, RESPONSE_RULE_METADATA: 'true', EXPLAIN_SAMPLE: '50' };
  const [plain, shadow] = await Promise.all([
    startAdministered(RULES, {
      ...{ ...told, WORKERS: '2', REDIS_URL: redis.url },
      AUTHZ_MAPPING: join(folder, 'mapping.yaml'),
    }),
    startAdministered(RULES, { ...told, SHADOW_MODE: 'true' }),
  ]);
  services = { plain, shadow };
  client = new Client(`127.0.0.1:${plain.weir.grpcPort}`, credentials.createInsecure());
});
afterAll(async () => {
  client.close();
  await Promise.all(Object.values(services).map((one) => one.stop()));
  await redis.stop();
  rmSync(folder, { recursive: true });
});

const wire = (value: string, ...keys: readonly string[]): WireRequest => ({
  domain: 'demo',
  descriptors: keys.map((key) => ({
    ...{ entries: [{ key, value }], limit: null, hits_addend: null, is_negative_hits: false },
  })),
  hits_addend: 0,
});

const detailed = new Metadata();
detailed.set('x-weir-detail', '1');

function unary<Q, R>(method: MethodDefinition<Q, R>, request: Q, metadata = new Metadata()): Promise<R> {
  return new Promise((resolve, reject) => {
    const { path, requestSerialize, responseDeserialize } = method;
    const done = (error: ServiceError | null, response?: R) => (response ? resolve(response) : reject(error));
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, metadata, done);
  });
}

/** A method whose messages have the fields of these. */
type Typed = MethodDefinition<WireRequest, WireResponse>;

/** What an answer tells about spared requests: in its metadata, and in its header. */
const told = ({ dynamic_metadata, response_headers_to_add }: WireResponse) => [
  (dynamic_metadata && (fromStruct(dynamic_metadata).weir as { would_refuse?: object }))?.would_refuse,
  response_headers_to_add.find(({ key }) => key === HEADER)?.value,
];

const trial = { descriptor: 0, rule: 'demo.trial', name: 'proposed', limit: '1 per year', reason: 'shadow' };
const quota = { descriptor: 0, rule: 'demo.spent', limit: '0 per year', reason: 'quota' };
const user = { descriptor: 0, rule: 'demo.user', limit: '1 per year', reason: 'service_shadow' };

describe.each([
  ['ShouldRateLimit', (request: WireRequest) => unary(shouldRateLimit, request)],
  ['ShouldRateLimit with the detail', (request: WireRequest) => unary(shouldRateLimit, request, detailed)],
  [
    'Batch',
    async (request: WireRequest) => {
      const [answer] = (await unary(decideBatch, { requests: [request] }, detailed)).answers;
      if (!answer || !('response' in answer)) throw new Error('no answer');
      return answer.response;
    },
  ],
  [
    "Kuadrant's CheckRateLimit",
    async (request: WireRequest) => {
      const checked = await unary(kuadrantService.CheckRateLimit as Typed, request);
      await unary(kuadrantService.Report as Typed, request); // a check counts nothing
      return checked;
    },
  ],
])('%s tells', (name, ask) => {
  test('that a limit in shadow mode would have refused, and only then', async () => {
    expect(told(await ask(wire(name, 'trial')))).toEqual([undefined, undefined]);
    expect(told(await ask(wire(name, 'trial')))).toEqual([[trial], '"proposed";reason=shadow']);
  });

  test('that a quota is over while another one lets the request pass', async () => {
    expect(told(await ask(wire(name, 'spent', 'quota')))).toEqual([[quota], '"demo.spent";reason=quota']);
    expect(told(await ask(wire(name, 'spent')))).toEqual([undefined, undefined]);
  });
});

/** Posts to /json. */
async function post(of: keyof typeof services, request: WireRequest, headers: Readonly<Record<string, string>> = {}) {
  const body = JSON.stringify(request);
  const to = `http://127.0.0.1:${services[of].weir.httpPort}/json`;
  return (await fetch(to, { method: 'POST', body, headers })).json();
}

test('/json tells it in the metadata, the detail and a header', async () => {
  await post('plain', wire('json', 'trial'));
  const header = [{ key: HEADER, value: '"proposed";reason=shadow' }];
  for (const headers of [{}, { 'x-weir-detail': '1' }])
    expect(await post('plain', wire('json', 'trial'), headers)).toMatchObject({
      ...{ overallCode: 'OK', responseHeadersToAdd: header },
      dynamicMetadata: { weir: { would_refuse: [trial] } },
    });
});

test('a service in shadow mode tells which limits would have refused', async () => {
  expect(await post('shadow', wire('a', 'user'))).not.toHaveProperty('responseHeadersToAdd');
  expect(await post('shadow', wire('a', 'user', 'trial'))).toMatchObject({
    ...{ overallCode: 'OK', responseHeadersToAdd: [{ value: '"demo.user";reason=service_shadow' }] },
    dynamicMetadata: { weir: { would_refuse: [user] } },
  });
});

test('/authz tells it in the header', async () => {
  const ask = async () => {
    const { status, headers } = await fetch(`http://127.0.0.1:${services.plain.weir.httpPort}/authz`, {
      headers: { 'x-trial': 'authz' },
    });
    return [status, headers.get(HEADER)];
  };
  expect([await ask(), await ask()]).toEqual([
    [200, null],
    [200, '"proposed";reason=shadow'],
  ]);
});

test('explain predicts it, for the whole request', async () => {
  await post('plain', wire('explained', 'trial'));
  const { call } = services.plain;
  const { body } = await call('POST', '/api/v1/explain', wire('explained', 'trial', 'user'));
  expect(body).toMatchObject({
    decision: { code: 'OK', decidedBy: [], wouldRefuse: [trial] },
    answer: { dynamicMetadata: { weir: { would_refuse: [trial] } } },
  });
  const { body: fresh } = await call('POST', '/api/v1/explain', wire('fresh', 'trial'));
  expect(fresh.decision).not.toHaveProperty('wouldRefuse');
});

test('explain names only limits that refuse as those that decide', async () => {
  for (const name of ['plain', 'shadow'] as const) await post(name, wire('decided', 'user'));
  const explain = async (of: keyof typeof services, ...keys: readonly string[]) =>
    (await services[of].call('POST', '/api/v1/explain', wire('decided', ...keys))).body.decision;
  expect(await explain('plain', 'spent', 'quota', 'user')).toMatchObject({
    ...{ code: 'OVER_LIMIT', why: 'a limit is exceeded', decidedBy: [{ rule: 'demo.user' }], wouldRefuse: [quota] },
  });
  expect(await explain('shadow', 'user')).toMatchObject({
    ...{ code: 'OK', shadowMode: true, decidedBy: [], wouldRefuse: [user] },
    why: 'a limit is exceeded, and SHADOW_MODE lets the request pass',
  });
});

test('the sample of explained requests has those that would have been refused, apart from refusals', async () => {
  const { call } = services.plain;
  const list = async (query: string) => (await call('GET', `/api/v1/refusals?count=1000${query}`)).body.refusals;
  for (let times = 0; times < 2; times++) await post('plain', wire('sampled', 'trial', 'user'));
  const ofSample = ({ descriptors }: { descriptors: { entries: { value: string }[] }[] }) =>
    descriptors[0]?.entries[0]?.value === 'sampled';
  await until('the refusal is kept', async () => (await list('')).some(ofSample));
  const refused = (await list('')).filter(ofSample);
  expect(refused).toMatchObject([{ wouldRefuse: [trial], descriptors: [{ shadow: true }, { code: 'OVER_LIMIT' }] }]);
  await post('plain', wire('sampled', 'trial'));
  await until('the spared request is kept', async () => (await list('&of=would_refuse')).some(ofSample));
  expect((await list('')).filter(ofSample)).toEqual(refused);
  expect((await list('&of=would_refuse')).filter(ofSample)).toMatchObject([
    { passesInMs: 0, wouldRefuse: [trial], descriptors: [{ code: 'OVER_LIMIT', arithmetic: '2 + 1 = 3 > 1' }] },
  ]);
  expect(await services.plain.call('GET', '/api/v1/refusals?of=other')).toMatchObject({ status: 400 });
});
