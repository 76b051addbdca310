import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { PackageDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../src/protobuf/load.ts';
import { ProtoWriter } from '../src/protobuf/writer.ts';
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
 * The file descriptors of all services, as a FileDescriptorSet.
 *
 * @see https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto
 */
export function descriptorSet(): Buffer {
  const linked = Object.values(describedServices()).flatMap(({ fileDescriptorProtos }) =>
    Array.isArray(fileDescriptorProtos) ? (fileDescriptorProtos as readonly Uint8Array[]) : [],
  );
  const writer = new ProtoWriter();
  writer.start(0);
  for (const bytes of new Set(linked)) writer.bytesField(1, bytes);
  return Buffer.from(writer.bytes.subarray(0, writer.length));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  showHelp(`Usage: npx tsx deploy/descriptors.ts

Writes proto/descriptors.binpb, which the reflection service reads, from the .proto files.
`);
  writeFileSync(new URL('../proto/descriptors.binpb', import.meta.url), descriptorSet());
}
