import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import { ReflectionV1Implementation } from '@grpc/reflection/build/src/implementations/reflection-v1.js';
import { describedFiles, describedServices } from '../../../deploy/descriptors.ts';
import type { OpenCall } from '../../../src/h2/grpc/method.ts';
import { reflectionMethods } from '../../../src/parts/reflection/reflection.ts';

const committed = readFileSync(new URL('../../../proto/descriptors.json', import.meta.url), 'utf8');
const OPTIONAL = [
  'envoy.service.rate_limit_quota.v3.RateLimitQuotaService',
  'kuadrant.service.ratelimit.v1.RateLimitService',
  'weir.v1.Rules',
  'weir.v1.Holds',
];

function methodFor(services: readonly string[]) {
  const [method] = reflectionMethods({ paths: [''], offered: services.map((name) => `/${name}/Method`) });
  if (method?.kind !== 'bidi stream') throw new Error('expected a bidirectional stream');
  return method;
}
const ofAll = methodFor(OPTIONAL);
const official = new ReflectionV1Implementation(describedServices());
const { symbols, files: officialFiles } = official as unknown as {
  readonly symbols: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, unknown>>;
};

const protos = fileURLToPath(new URL('../../../node_modules/@grpc/reflection/build/proto/', import.meta.url));
const definition = loadSync('grpc/reflection/v1/reflection.proto', {
  includeDirs: [protos],
  oneofs: true,
  defaults: true,
});
const client = (definition['grpc.reflection.v1.ServerReflection'] as ServiceDefinition) // in the file
  .ServerReflectionInfo as MethodDefinition<object, Answer>;

interface Answer {
  readonly messageResponse: string;
  readonly listServicesResponse: { readonly service: readonly { readonly name: string }[] } | null;
  readonly fileDescriptorResponse: { readonly fileDescriptorProto: Uint8Array[] } | null;
}

/** The answer to a question, through a client's own serialization. */
const ask = (question: object, method = ofAll): Answer => {
  const sent: unknown[] = [];
  const call = { onGone: () => {}, send: (response: unknown) => sent.push(response), end: () => {} };
  const incoming = method.handle(call as unknown as OpenCall); // what it uses
  incoming.message(method.decode(client.requestSerialize(question)));
  incoming.end();
  return client.responseDeserialize(method.encode(sent[0]));
};

/** The same by the official implementation. The requested file comes first, the others in any order. */
function officially(question: object): Answer {
  const request = client.requestDeserialize(client.requestSerialize(question));
  const response = official.handleServerReflectionRequest(request as never); // it has other types
  return client.responseDeserialize(client.responseSerialize(response as never));
}

function sorted(answer: Answer): object {
  const [first, ...imports] =
    answer.fileDescriptorResponse?.fileDescriptorProto.map((file) => Buffer.from(file).toString('hex')) ?? [];
  return { ...answer, fileDescriptorResponse: [first, ...imports.sort()] };
}

test('the file of descriptors describes the .proto files; if not: npx tsx deploy/descriptors.ts', () => {
  expect(committed).toBe(describedFiles());
});

test('requests get the same answers as from the official implementation', () => {
  expect(Object.keys(symbols).length).toBeGreaterThan(200);
  const questions = [
    { listServices: '*' },
    ...Object.keys(symbols).map((fileContainingSymbol) => ({ fileContainingSymbol })),
    ...Object.keys(officialFiles).map((fileByFilename) => ({ fileByFilename })),
    { fileContainingSymbol: 'weir.v1.Nothing' },
    { fileByFilename: 'nothing.proto' },
    { fileContainingExtension: { containingType: 'weir.v1.HoldRequest', extensionNumber: 7 } },
    { allExtensionNumbersOfType: 'weir.v1.HoldRequest' },
    { host: 'a host', fileByFilename: 'grpc_health_v1.proto' },
  ];
  for (const question of questions) expect(sorted(ask(question))).toEqual(sorted(officially(question)));
});

test("an enum value is found by its full name, which does not include the enum's name", () => {
  const ofEnum = ask({ fileContainingSymbol: 'envoy.service.ratelimit.v3.RateLimitResponse.Code' });
  expect(ofEnum.messageResponse).toBe('fileDescriptorResponse');
  expect(ask({ fileContainingSymbol: 'envoy.service.ratelimit.v3.RateLimitResponse.OVER_LIMIT' })).toEqual({
    ...ofEnum,
    originalRequest: expect.anything(),
  });
});

test('a request without a message is UNIMPLEMENTED', () => {
  expect(ask({})).toMatchObject({ messageResponse: 'errorResponse', errorResponse: { errorCode: 12 } });
});

test('only services that the server has are listed', () => {
  const namesOf = (services: readonly string[]) =>
    ask({ listServices: '*' }, methodFor(services)).listServicesResponse?.service.map(({ name }) => name);
  const core = ['envoy.service.ratelimit.v3.RateLimitService', 'weir.v1.Batch', 'grpc.health.v1.Health'];
  expect(namesOf([])).toEqual(core);
  for (const name of OPTIONAL) expect(new Set(namesOf([name]))).toEqual(new Set([name, ...core]));
  const quotas = { fileContainingSymbol: OPTIONAL[0] };
  expect(ask(quotas, methodFor(OPTIONAL.slice(1))).messageResponse).toBe('errorResponse');
});
