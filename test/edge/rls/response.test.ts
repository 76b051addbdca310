import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { WireRequest, WireResponse } from '../../../src/edge/wire/wire.ts';
import { createEngine } from '../../../src/engine/index.ts';
import { kuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `domain: demo
descriptors:
  - key: user
    rate_limit: { name: per-user, unit: day, requests_per_unit: 0 }
    response: {}
  - key: other
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: page
    rate_limit: { unit: day, requests_per_unit: 5 }
    response:
      body: '{"wait": {retry_after}, "of": "{rule}", "limit": "{limit}"}'
      headers: { X-Plan: free, Retry-After: 7 }
  - key: path
    value: '"*'
    rate_limit: { unit: day, requests_per_unit: 0 }
    response: { body: '{"of": "{rule}"}' }
  - key: text
    rate_limit: { unit: day, requests_per_unit: 0 }
    response: { body: 'ü {retry_after} {rule}' }
`;
const MAPPING = `domain: demo
rate_limits:
  - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
  - actions: [{ request_headers: { header_name: x-text, descriptor_key: text } }]
`;

const requestOf = (hits: number, ...keys: readonly string[]): WireRequest => ({
  domain: 'demo',
  descriptors: keys.map((key) => ({
    ...{ entries: [{ key, value: '"a' }], hits_addend: { value: hits }, is_negative_hits: false, limit: null },
  })),
  hits_addend: 0,
});

const folder = mkdtempSync(join(tmpdir(), 'response-'));
let weir: Weir;
let client: ReturnType<typeof createClient>;
beforeAll(async () => {
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  writeFileSync(join(folder, 'authz.yaml'), MAPPING);
  weir = await startWeir(
    { LIMIT_RETRY_AFTER_HEADERS: 'retry-after', AUTHZ_MAPPING: join(folder, 'authz.yaml'), ADMIN_TOKEN: 'operator' },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
  client = createClient(`127.0.0.1:${weir.grpcPort}`);
});
afterAll(async () => {
  client?.close();
  await weir?.stop();
  rmSync(folder, { recursive: true });
});

/** What a client would read. */
function shown({ raw_body: body, response_headers_to_add: headers }: Partial<WireResponse>) {
  return {
    body: body && body.length > 0 ? Buffer.from(body).toString() : undefined,
    headers: (headers ?? []).map(({ key, value }) => `${key}: ${value}`),
  };
}

const PROBLEM = {
  type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
  title: 'Request cannot be satisfied as assigned quota has been exceeded',
  status: 429,
  'violated-policies': ['per-user'],
  rule: 'demo.user',
  limit: '0 per day',
};

test('a refusal has the problem document of its rule, and a request that passes has no body', async () => {
  const refused = shown(await client.send(requestOf(1, 'user')));
  expect(refused.headers).toContain('content-type: application/problem+json');
  expect(JSON.parse(refused.body ?? '')).toEqual(PROBLEM);
  expect(shown(await client.send(requestOf(5, 'page')))).toEqual({ body: undefined, headers: [] });
});

test('placeholders are filled in, and headers of the rule replace others', async () => {
  await client.send(requestOf(5, 'page'));
  const { body, headers } = shown(await client.send(requestOf(1, 'page')));
  expect(JSON.parse(body ?? '')).toEqual({ wait: expect.any(Number), of: 'demo.page', limit: '5 per day' });
  expect(headers).toEqual(['content-type: application/json', 'X-Plan: free', 'Retry-After: 7']);
});

test('texts in JSON are escaped, and other texts are not', async () => {
  expect(JSON.parse(shown(await client.send(requestOf(1, 'path'))).body ?? '')).toEqual({ of: 'demo.path_"*' });
  const { body, headers } = shown(await client.send(requestOf(1, 'text')));
  expect([body, headers]).toEqual(['ü never demo.text', ['content-type: text/plain; charset=utf-8']]);
});

test('of several rules that refuse, the first one with a response answers', async () => {
  expect(shown(await client.send(requestOf(1, 'other')))).toEqual({ body: undefined, headers: [] });
  expect(shown(await client.send(requestOf(1, 'other', 'text', 'user'))).body).toBe('ü never demo.text');
});

test('a batch, /json, /authz, Kuadrant, the engine and explanations have the same response', async () => {
  const { answers } = await client.decide([requestOf(1, 'user')]);
  const [answer] = answers;
  expect(JSON.parse(shown((answer && 'response' in answer && answer.response) || {}).body ?? '')).toEqual(PROBLEM);

  const json = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] });
  const overJson = await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body: json });
  const { rawBody } = (await overJson.json()) as { readonly rawBody: string };
  expect(JSON.parse(Buffer.from(rawBody, 'base64').toString())).toEqual(PROBLEM);

  const authz = await fetch(`http://127.0.0.1:${weir.httpPort}/authz`, { headers: { 'x-user': 'a' } });
  expect([authz.status, authz.headers.get('content-type')]).toEqual([429, 'application/problem+json']);
  expect(await authz.json()).toEqual(PROBLEM);

  const kuadrant = new Client(`127.0.0.1:${weir.grpcPort}`, credentials.createInsecure());
  const checked = await new Promise<WireResponse>((resolve, reject) => {
    const method = kuadrantService.CheckRateLimit as unknown as MethodDefinition<object, WireResponse>; // by its file
    const done = (error: ServiceError | null, response?: WireResponse) =>
      response === undefined ? reject(error) : resolve(response);
    kuadrant.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      requestOf(1, 'user'),
      done,
    );
  });
  kuadrant.close();
  expect(JSON.parse(shown(checked).body ?? '')).toEqual(PROBLEM);

  const engine = await createEngine({ rules: { text: RULES } });
  const decided = await engine.decide({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] });
  expect(JSON.parse(engine.refusal(decided)?.body ?? '')).toEqual(PROBLEM);
  await engine.close();

  const explained = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/explain`, {
    method: 'POST',
    body: json,
    headers: { authorization: 'Bearer operator', 'content-type': 'application/json' },
  });
  expect(await explained.json()).toMatchObject({ answer: { rawBody } });
});
