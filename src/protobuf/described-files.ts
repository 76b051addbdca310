import { createInterner } from './interner.ts';
import { ProtoReader, WireType } from './reader.ts';

/** A file descriptor, which contains all .proto files of a package. */
export interface DescribedFile {
  readonly name: string;
  readonly package: string;
  /** Encoded descriptor. */
  readonly bytes: Buffer;
  /** Names of imported files. */
  readonly imports: readonly string[];
  /** Full names of its services. */
  readonly services: readonly string[];
  /** Full names of all its definitions, including messages, enums, services and their parts. */
  readonly symbols: readonly string[];
}

/** The parts of a message of descriptor.proto that are read, which are named messages in fields and lists of names. */
type Shape = { readonly [field: number]: Shape | typeof TEXT };

interface Named {
  readonly field: number;
  readonly name: string;
  readonly parts: readonly Named[];
  readonly isEnum: boolean;
}

const TEXT = 'text';
/** Field number of `name` in all messages. */
const NAME = 1;
const LEAF: Shape = {};
const ENUM: Shape = { 2: LEAF };
const MESSAGE: Shape = {
  2: LEAF, // field
  get 3() {
    return MESSAGE; // nested_type
  },
  4: ENUM,
  8: LEAF, // oneof_decl
};
const SERVICE: Shape = { 2: LEAF };
const PACKAGE = 2;
const DEPENDENCY = 3;
const SERVICES = 6;
const FILE: Shape = { [PACKAGE]: TEXT, [DEPENDENCY]: TEXT, 4: MESSAGE, 5: ENUM, [SERVICES]: SERVICE };

/**
 * Reads a FileDescriptorSet.
 *
 * @see https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto
 */
export function readDescriptorSet(bytes: Buffer): readonly DescribedFile[] {
  const reader = new ProtoReader(createInterner());
  reader.open(bytes, 0, bytes.length);
  const files: DescribedFile[] = [];
  while (reader.at < bytes.length) {
    reader.tag(); // the set has one field
    const end = reader.length();
    const encoded = bytes.subarray(reader.at, end);
    files.push(toFile(readNamed(reader, end, 0, FILE), encoded));
  }
  return files;
}

function readNamed(reader: ProtoReader, end: number, field: number, shape: Shape): Named {
  let name = '';
  const parts: Named[] = [];
  while (reader.at < end) {
    const tag = reader.tag();
    const number = tag >>> 3;
    const part = (tag & 7) === WireType.LENGTH ? shape[number] : undefined;
    if (number === NAME) name = reader.text(end) ?? '';
    else if (part === TEXT) parts.push({ field: number, name: reader.text(end) ?? '', parts: [], isEnum: false });
    else if (part) parts.push(readNamed(reader, reader.length(), number, part));
    else reader.skip(tag);
  }
  return { field, name, parts, isEnum: shape === ENUM };
}

function toFile({ name, parts }: Named, bytes: Buffer): DescribedFile {
  const partNames = (number: number) => parts.filter(({ field }) => field === number).map((part) => part.name);
  const scope = partNames(PACKAGE)[0] ?? '';
  const defined = parts.filter(({ field }) => field !== PACKAGE && field !== DEPENDENCY);
  return {
    name,
    package: scope,
    bytes,
    imports: partNames(DEPENDENCY),
    services: partNames(SERVICES).map((service) => `${scope}.${service}`),
    symbols: defined.flatMap((part) => symbolsIn(part, scope)),
  };
}

function symbolsIn({ name, parts, isEnum }: Named, scope: string): readonly string[] {
  const fullName = `${scope}.${name}`;
  const inside = parts.flatMap((part) => symbolsIn(part, fullName));
  // an enum value is named beside its enum, though grpc-js's reflection names it inside
  const beside = isEnum ? parts.map((value) => `${scope}.${value.name}`) : [];
  return [fullName, ...inside, ...beside];
}
