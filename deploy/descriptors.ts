import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { PackageDefinition } from '@grpc/proto-loader';
import descriptor, {
  type IDescriptorProto,
  type IEnumDescriptorProto,
  type IFileDescriptorProto,
} from 'protobufjs/ext/descriptor/index.js';
import type { DescribedFile } from '../src/parts/reflection/reflection.ts';
import { loadProtos } from '../src/protobuf/load.ts';
import { linkDescriptors } from './link-descriptors.ts';
import { showHelp } from './usage.ts';

/** The services of the gRPC server. */
const FILES = [
  'envoy/service/ratelimit/v3/rls.proto',
  'envoy/service/rate_limit_quota/v3/rlqs.proto',
  'kuadrant/service/ratelimit/v1/ratelimit.proto',
  'weir/v1/rules.proto',
  'weir/v1/holds.proto',
  'weir/v1/batch.proto',
  'grpc/health/v1/health.proto',
];

/** Loads all files at once, since each package has one file descriptor. */
export const describedServices = (): PackageDefinition => linkDescriptors(loadProtos(FILES, 'numbers'));

/**
 * The file descriptors of all services, with what the reflection service searches for.
 *
 * @see https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto
 */
export function describedFiles(): string {
  const linked = Object.values(describedServices()).flatMap(({ fileDescriptorProtos }) =>
    Array.isArray(fileDescriptorProtos) ? (fileDescriptorProtos as readonly Uint8Array[]) : [],
  );
  return `${JSON.stringify(Array.from(new Set(linked), describeFile))}\n`;
}

function describeFile(bytes: Uint8Array): DescribedFile {
  const file = descriptor.FileDescriptorProto.decode(bytes) as IFileDescriptorProto; // by its own type
  const scope = file.package ?? '';
  const services = (file.service ?? []).map(({ name }) => `${scope}.${name}`);
  return {
    name: file.name ?? '',
    package: scope,
    descriptor: Buffer.from(bytes).toString('base64'),
    imports: file.dependency ?? [],
    services,
    symbols: [
      ...namesIn(scope, file.messageType, file.enumType),
      ...services,
      ...(file.service ?? []).flatMap(({ name, method = [] }) => method.map((one) => `${scope}.${name}.${one.name}`)),
    ],
  };
}

/** The full names of messages and enums, and of their parts. */
function namesIn(scope: string, messages: IDescriptorProto[] = [], enums: IEnumDescriptorProto[] = []): string[] {
  const ofEnums = enums.flatMap(({ name, value = [] }) => [
    `${scope}.${name}`,
    // a value is named beside its enum, though grpc-js's reflection names it inside
    ...value.flatMap((one) => [`${scope}.${name}.${one.name}`, `${scope}.${one.name}`]),
  ]);
  const ofMessages = messages.flatMap(({ name, field = [], oneofDecl = [], nestedType, enumType }) => {
    const fullName = `${scope}.${name}`;
    const parts = [...field, ...oneofDecl].map((part) => `${fullName}.${part.name}`);
    return [fullName, ...parts, ...namesIn(fullName, nestedType, enumType)];
  });
  return [...ofMessages, ...ofEnums];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  showHelp(`Usage: npx tsx deploy/descriptors.ts

Writes proto/descriptors.json, which the reflection service reads, from the .proto files.
`);
  writeFileSync(new URL('../proto/descriptors.json', import.meta.url), describedFiles());
}
