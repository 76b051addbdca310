import type { MethodDefinition } from '@grpc/grpc-js';
import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { createInterner } from '../../protobuf/interner.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';

/** A query of the reflection service. */
export interface ReflectionQuestion {
  readonly kind: 'file by name' | 'file of symbol' | 'file of extension' | 'extensions of type' | 'services';
  /** The name of the queried file, symbol or type. */
  readonly name: string;
  /** The number of an extension. */
  readonly number: number;
}

/** The messages of grpc/reflection/v1/reflection.proto; those of `v1alpha` have the same fields. */
export interface ReflectionRequest {
  readonly host: string;
  readonly question: ReflectionQuestion | undefined;
  /** The encoded request. */
  readonly bytes: Buffer;
}
export interface ReflectionResponse {
  readonly request: ReflectionRequest;
  /** The encoded field of the response. */
  readonly answer: Buffer;
}

const HOST = 1;
const questions: Readonly<Record<number, ReflectionQuestion['kind']>> = {
  3: 'file by name',
  4: 'file of symbol',
  5: 'file of extension',
  6: 'extensions of type',
  7: 'services',
};
const EXTENSION = 5;

const reader = new ProtoReader(createInterner());
const writer = new ProtoWriter();
const written = (): Buffer => ownCopy(writer.bytes, 0, writer.length);

function readRequest(bytes: Buffer): ReflectionRequest {
  let host = '';
  let question: ReflectionQuestion | undefined;
  reader.open(bytes, 0, bytes.length);
  while (reader.at < bytes.length) {
    const tag = reader.tag();
    const field = tag >>> 3;
    const kind = questions[field];
    if ((tag & 7) !== WireType.LENGTH) reader.skip(tag);
    else if (field === HOST) host = reader.text(bytes.length) ?? '';
    else if (field === EXTENSION) question = readExtension(reader.length());
    else if (kind) question = { kind, name: reader.text(bytes.length) ?? '', number: 0 };
    else reader.skip(tag);
  }
  return { host, question, bytes };
}

/** An ExtensionRequest. */
function readExtension(end: number): ReflectionQuestion {
  let name = '';
  let number = 0;
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.LENGTH)) name = reader.text(end) ?? '';
    else if (tag === ((2 << 3) | WireType.VARINT)) number = reader.uint32() | 0;
    else reader.skip(tag);
  }
  reader.close(end);
  return { kind: 'file of extension', name, number };
}

function writeResponse({ request, answer }: ReflectionResponse): Buffer {
  writer.start(0);
  writer.textField(1, request.host);
  writer.bytesField(2, request.bytes);
  writer.append(answer);
  return written();
}

/** A FileDescriptorResponse. */
export function writeFiles(files: readonly Buffer[]): Buffer {
  writer.start(0);
  const response = writer.begin(4);
  for (const file of files) writer.bytesField(1, file);
  writer.end(response);
  return written();
}

/** A ListServiceResponse. */
export function writeServices(names: readonly string[]): Buffer {
  writer.start(0);
  const response = writer.begin(6);
  for (const name of names) {
    const service = writer.begin(1);
    writer.textField(1, name);
    writer.end(service);
  }
  writer.end(response);
  return written();
}

/** An ErrorResponse. */
export function writeError(code: number, message: string): Buffer {
  writer.start(0);
  const response = writer.begin(7);
  writer.uint32Field(1, code);
  writer.textField(2, message);
  writer.end(response);
  return written();
}

const clientsOnly = (): never => {
  throw new TypeError('reflection is only served here');
};

/** `ServerReflection`, for servers, under this path. */
export const reflectionService = (
  path: string,
): { readonly ServerReflectionInfo: MethodDefinition<ReflectionRequest, ReflectionResponse> } => ({
  ServerReflectionInfo: {
    path,
    ...{ requestStream: true, responseStream: true },
    ...{ requestDeserialize: readRequest, responseSerialize: writeResponse },
    ...{ requestSerialize: clientsOnly, responseDeserialize: clientsOnly },
  },
});
