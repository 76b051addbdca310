import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, credentials, status } from '@grpc/grpc-js';
import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import descriptor from 'protobufjs/ext/descriptor/index.js';
import type { QuotaReport } from '../../../src/parts/quotas/answers.ts';
import { documentOf } from '../../helpers/documented.ts';
import type { SentAction } from '../../helpers/quota-client.ts';
import { useQuotaService } from '../../helpers/quota-service.ts';
import { until } from '../../helpers/until.ts';
import { asLocal, MAIN, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 64 } }
  - { key: free, rate_limit: { unlimited: true } }
`;

const stage = useQuotaService(RULES);
const { launch, open } = stage;

/** A service with small bounds, whose values only some clients may see, and one without quotas. */
let guarded: Weir;
let plain: Weir;
beforeAll(async () => {
  [guarded, plain] = await Promise.all([
    launch({ ADMIN_TOKEN: 'secret', HASH_KEYS: 'true', RLQS_MAX_BYTES: '65536' }),
    launch({ RLQS: 'false' }),
  ]);
});
afterAll(() => Promise.all([guarded.stop(), plain.stop()]));

const asOperator: RequestInit = { headers: { authorization: 'Bearer secret' } };

const page = async (path: string, of = stage.weir, init: RequestInit = {}) => {
  const response = await fetch(`http://127.0.0.1:${of.debugPort}/api/v1/${path}`, { headers: asLocal(of), ...init });
  return { status: response.status, body: (await response.json()) as QuotaReport }; // as documented
};

test('the admin API lists the share, demand and usage of each proxy, highest demand first', async () => {
  const [one, two] = [open('a'), open()];
  one.send({
    domain: 'edge',
    bucket_quota_usages: [
      {
        bucket_id: { bucket: { user: 'ann' } },
        time_elapsed: { seconds: 5 },
        num_requests_allowed: 50,
        num_requests_denied: 25,
      },
    ],
  });
  await one.next();
  two.report({ user: 'ann' }, 1);
  two.report({ free: 'x' }, 1);
  await two.next();
  await two.next();
  const { body } = await page('quotas');
  expect(body.more).toBe(0);
  expect((await documentOf(stage.weir.debugPort)).flawsOfAnswer('GET /api/v1/quotas', 200, body)).toEqual([]);
  const ofA = { proxy: 'a', domain: 'edge', entries: [{ key: 'user', value: 'ann' }], rule: 'edge.user' };
  expect(body.quotas[0]).toEqual({
    ...ofA,
    ...{ assigned: 'share', share: expect.any(Number), burst: 64, rate: 100, demand: 15, used: 10 },
    reportedMsAgo: expect.any(Number),
  });
  expect(body.quotas.map(({ assigned }) => assigned).toSorted()).toEqual(['allow', 'share', 'share']);
  expect((await page('quotas?count=1')).body).toMatchObject({ quotas: [ofA], more: 2 });
  expect((await page('quotas?rule=edge.free')).body.quotas).toHaveLength(1);
  expect((await page('quotas?domain=edge&descriptor=user=ann')).body.quotas).toHaveLength(2);
  expect((await page('quotas?domain=other')).body.quotas).toEqual([]);
  expect((await page('quotas?descriptor=user=ann')).status).toBe(400);
});

test("explain and the command show the proxies' shares of a bucket", async () => {
  const stream = open('b');
  stream.report({ user: 'bob' }, 20, 5);
  await stream.next();
  const target = `localhost:${stage.weir.debugPort}`;
  const run = promisify(execFile);
  const weirCommand = (...args: readonly string[]) =>
    run(process.execPath, [MAIN, ...args, '--target', target], { env: { ...process.env, NO_COLOR: '1' } });
  expect((await weirCommand('explain', 'edge', 'user=bob')).stdout).toMatch(
    /^ {3}proxy b: quota [\d.]+\/s of 100\/s, demand 4\/s, used 4\/s$/m,
  );
  expect((await weirCommand('explain', 'edge', 'user=other')).stdout).not.toContain('proxy');
  expect((await weirCommand('quotas', 'edge', 'user=bob')).stdout).toMatch(
    /^edge user=bob {2}edge\.user\n {2}b: quota [\d.]+\/s of 100\/s, demand 4\/s, used 4\/s\n$/,
  );
  expect((await weirCommand('quotas', '--rule', 'no')).stdout).toContain('no proxy');
});

test('values are for clients that may see them, and hashed with HASH_KEYS', async () => {
  const stream = open('c', guarded);
  stream.report({ user: 'cem' }, 1);
  await stream.next();
  expect((await page('quotas', guarded)).status).toBe(401);
  const { body } = await page('quotas', guarded, asOperator);
  expect(body.quotas[0]?.entries).toEqual([{ key: 'user', value: expect.stringMatching(/^#[\w-]{16}$/) }]);
  expect(await page('quotas', plain)).toMatchObject({
    status: 404,
    body: { detail: expect.stringContaining('RLQS') },
  });
});

test('workers share pools in Redis and are listed together, and when they end, a proxy keeps its share with another service', async () => {
  const env = { BACKEND_TYPE: 'redis', REDIS_URL: stage.redis.url, CACHE_KEY_PREFIX: 'workers|' };
  const [pair, staying] = await Promise.all([launch({ ...env, WORKERS: '2' }), launch(env)]);
  const unitsOf = (action: SentAction | undefined): number =>
    action?.quota_assignment_action?.rate_limit_strategy?.token_bucket?.tokens_per_fill?.value ?? 0;
  try {
    const shares: number[] = [];
    for (let at = 0; at < 6; at++) {
      const stream = open(`proxy-${at}`, pair); // each on its own connection, which either worker may accept
      stream.report({ user: 'ann' }, 1);
      shares.push(unitsOf((await stream.next())[0]));
    }
    expect(shares.reduce((sum, share) => sum + share, 0)).toBeLessThanOrEqual(6_000);
    const listed = async () => (await page('quotas?domain=edge&descriptor=user=ann', pair)).body.quotas;
    await until('both workers have replied', async () => (await listed()).length === shares.length);
    expect((await listed()).map(({ proxy }) => proxy).toSorted()).toEqual(shares.map((_, at) => `proxy-${at}`));
    expect((await page('quotas?count=2', pair)).body).toMatchObject({ more: 4 });

    const stream = open('d', pair);
    stream.report({ user: 'dee' }, 1);
    const [before] = await stream.next();
    const stopped = pair.stop(); // by SIGTERM
    expect(await stream.ended).toMatchObject({ code: status.OK });
    await stopped;
    const again = open('d', staying);
    again.report({ user: 'dee' }, 500, 5);
    expect(unitsOf((await again.next())[0])).toBe(unitsOf(before));
  } finally {
    await Promise.all([pair.stop(), staying.stop()]);
  }
});

test('while shares in memory use RLQS_MAX_BYTES, further buckets get no assignment', async () => {
  const stream = open('e', guarded);
  const usages = Array.from({ length: 400 }, (_, at) => ({
    bucket_id: { bucket: { user: `user-${at}` } },
    time_elapsed: { seconds: 0 },
    num_requests_allowed: 1,
    num_requests_denied: 0,
  }));
  stream.send({ domain: 'edge', bucket_quota_usages: usages });
  await until('buckets without a quota are counted', async () => {
    const text = await (await fetch(`http://127.0.0.1:${guarded.debugPort}/metrics`)).text();
    return Number(/^weir_rlqs_unavailable_total (\S+)$/m.exec(text)?.[1]) > 0;
  });
  const { body } = await page('quotas?count=500', guarded, asOperator);
  const assigned = body.quotas.filter((one) => one.assigned === 'share');
  expect(assigned.length).toBeGreaterThan(50);
  expect(assigned.length).toBeLessThan(200);
});

test('reflection lists the service if it is served, with the files of its messages', async () => {
  const folderOfProtos = fileURLToPath(new URL('../../../node_modules/@grpc/reflection/build/proto/', import.meta.url));
  const definition = loadSync('grpc/reflection/v1/reflection.proto', {
    ...{ keepCase: true, includeDirs: [folderOfProtos] },
  });
  const service = definition['grpc.reflection.v1.ServerReflection'] as ServiceDefinition; // in the file
  const method = service.ServerReflectionInfo as MethodDefinition<object, ReflectionAnswer>; // in the file
  const ask = async (of: Weir, question: object): Promise<ReflectionAnswer> => {
    const client = new Client(`127.0.0.1:${of.grpcPort}`, credentials.createInsecure());
    const stream = client.makeBidiStreamRequest(method.path, method.requestSerialize, method.responseDeserialize);
    stream.write(question);
    const [answer] = await once(stream, 'data');
    stream.end();
    await once(stream.resume(), 'end'); // otherwise stopping the service ends it with an error
    client.close();
    return answer;
  };
  const name = 'envoy.service.rate_limit_quota.v3.RateLimitQuotaService';
  const [listed, without] = [await ask(stage.weir, { list_services: '' }), await ask(plain, { list_services: '' })];
  expect(listed.list_services_response?.service).toContainEqual({ name });
  expect(listed.list_services_response?.service).toContainEqual({
    name: 'envoy.service.ratelimit.v3.RateLimitService',
  });
  expect(without.list_services_response?.service).not.toContainEqual({ name });
  const described = await ask(stage.weir, { file_containing_symbol: name });
  const files = described.file_descriptor_response?.file_descriptor_proto.map((bytes) =>
    descriptor.FileDescriptorProto.toObject(descriptor.FileDescriptorProto.decode(bytes)),
  );
  const names = files?.map((file) => file.name);
  for (const file of files ?? []) expect(names).toEqual(expect.arrayContaining(file.dependency ?? []));
  expect(files?.flatMap((file) => (file.service ?? []).map((one: { name: string }) => one.name))).toContain(
    'RateLimitQuotaService',
  );
});

interface ReflectionAnswer {
  readonly list_services_response?: { readonly service: readonly { readonly name: string }[] };
  readonly file_descriptor_response?: { readonly file_descriptor_proto: readonly Uint8Array[] };
}
