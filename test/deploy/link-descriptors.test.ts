import type { AnyDefinition } from '@grpc/proto-loader';
import descriptor, { type IFileDescriptorProto } from 'protobufjs/ext/descriptor/index.js';
import { linkDescriptors } from '../../deploy/link-descriptors.ts';
import { loadProtos } from '../../src/protobuf/load.ts';

const linked = linkDescriptors(loadProtos(['envoy/service/ratelimit/v3/rls.proto'], 'numbers'));
const filesOf = ({ fileDescriptorProtos = [] }: AnyDefinition): IFileDescriptorProto[] =>
  (fileDescriptorProtos as readonly Uint8Array[]).map(
    (bytes) => descriptor.FileDescriptorProto.decode(bytes) as IFileDescriptorProto, // by its own type
  );
const files = filesOf(linked['envoy.service.ratelimit.v3.RateLimitRequest'] as AnyDefinition);
const serviceFile = files.find(({ service }) => service && service.length > 0);

test('every file imports the files that define the types it names', () => {
  const names = new Set(files.map(({ name }) => name));
  for (const { dependency = [] } of files) for (const imported of dependency) expect(names).toContain(imported);
  expect(serviceFile?.dependency).not.toEqual([]);
});

test('methods and fields have the full names of their types', () => {
  const [method] = serviceFile?.service?.[0]?.method ?? [];
  expect(method).toMatchObject({
    inputType: '.envoy.service.ratelimit.v3.RateLimitRequest',
    outputType: '.envoy.service.ratelimit.v3.RateLimitResponse',
  });
  const request = serviceFile?.messageType?.find(({ name }) => name === 'RateLimitRequest');
  const types = (request?.field ?? []).flatMap(({ typeName }) => (typeName ? [typeName] : []));
  expect(types).toContain('.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor');
  expect(request?.field?.map(({ jsonName }) => jsonName)).toContain('hitsAddend');
});

test('the entry type of a map field is named after the field', () => {
  const struct = files.find(({ package: name }) => name === 'google.protobuf')?.messageType;
  expect(struct?.find(({ name }) => name === 'Struct')?.nestedType?.[0]?.name).toBe('FieldsEntry');
});
