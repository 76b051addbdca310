import type { AnyDefinition, EnumTypeDefinition, MessageTypeDefinition, PackageDefinition } from '@grpc/proto-loader';
import descriptor, { type IDescriptorProto, type IFileDescriptorProto } from 'protobufjs/ext/descriptor/index.js';

/**
 * Completes the file descriptors in a package definition, so that strict reflection clients such as grpcurl can link
 * them: protobufjs writes type names relative to where they are used, omits JSON names and imports, and misnames map
 * entries.
 *
 * @see https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto
 */
export function linkDescriptors(definition: PackageDefinition): PackageDefinition {
  const linked = link(Object.values(definition).flatMap((one) => (isDescribed(one) ? one.fileDescriptorProtos : [])));
  const entries = Object.entries(definition);
  return Object.fromEntries(
    entries.map(([name, one]) => [name, isDescribed(one) ? { ...one, fileDescriptorProtos: linked } : one]),
  );
}

/** Only messages and enums carry file descriptors, services do not. */
function isDescribed(one: AnyDefinition): one is MessageTypeDefinition<object, object> | EnumTypeDefinition {
  return Array.isArray(one.fileDescriptorProtos);
}

function link(encoded: readonly Uint8Array[]): Buffer[] {
  const files = new Map<string, IFileDescriptorProto>();
  for (const bytes of encoded) {
    const file = descriptor.FileDescriptorProto.decode(bytes) as IFileDescriptorProto; // by its own type
    files.set(file.name ?? '', file);
  }
  const fileOf = new Map<string, string>();
  for (const file of files.values()) {
    for (const type of typesIn(file.package ?? '', file.messageType, file.enumType)) fileOf.set(type, file.name ?? '');
  }
  return Array.from(files.values(), (file) => {
    const imports = new Set<string>();
    const absolute = (name: string, scope: string): string => {
      const found = name.startsWith('.') ? name.slice(1) : resolve(name, scope, fileOf);
      const from = fileOf.get(found);
      if (from !== undefined && from !== file.name) imports.add(from);
      return `.${found}`;
    };
    for (const message of file.messageType ?? []) linkMessage(message, `${file.package}.${message.name}`, absolute);
    for (const method of (file.service ?? []).flatMap((service) => service.method ?? [])) {
      method.inputType = absolute(method.inputType ?? '', file.package ?? '');
      method.outputType = absolute(method.outputType ?? '', file.package ?? '');
    }
    file.dependency = [...imports];
    return Buffer.from(descriptor.FileDescriptorProto.encode(file).finish());
  });
}

/** The full names of messages and enums, nested ones included. */
function typesIn(scope: string, messages: IDescriptorProto[] = [], enums: { name?: string }[] = []): string[] {
  return [
    ...enums.map(({ name }) => `${scope}.${name}`),
    ...messages.flatMap((message) => {
      const fullName = `${scope}.${message.name}`;
      return [fullName, ...typesIn(fullName, message.nestedType, message.enumType)];
    }),
  ];
}

function linkMessage(
  message: IDescriptorProto,
  fullName: string,
  absolute: (name: string, scope: string) => string,
): void {
  const maps = new Map(
    message.nestedType?.filter(({ options }) => options?.mapEntry).map((entry) => [entry.name, entry]),
  );
  for (const field of message.field ?? []) {
    field.jsonName = (field.name ?? '').replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const entry = maps.get(field.typeName);
    if (entry) {
      // the only name that protoc accepts
      entry.name = `${field.jsonName.charAt(0).toUpperCase()}${field.jsonName.slice(1)}Entry`;
      field.typeName = `.${fullName}.${entry.name}`;
    } else if (field.typeName) {
      field.typeName = absolute(field.typeName, fullName);
    }
  }
  for (const nested of message.nestedType ?? []) linkMessage(nested, `${fullName}.${nested.name}`, absolute);
}

/** Resolves a relative name, from the innermost scope outward. */
function resolve(name: string, scope: string, known: ReadonlyMap<string, string>): string {
  const parts = scope.split('.');
  for (let depth = parts.length; depth > 0; depth--) {
    const candidate = `${parts.slice(0, depth).join('.')}.${name}`;
    if (known.has(candidate)) return candidate;
  }
  return name;
}
