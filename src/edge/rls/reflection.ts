import { status } from '../../h2/grpc/grpc-status.ts';
import { type DescribedFile, readDescriptorSet } from '../../protobuf/described-files.ts';
import { type ReflectionQuestion, writeError, writeFiles, writeServices } from './reflection-messages.ts';

/**
 * The answers of the reflection service for services without extensions. Answers that describe files are encoded once.
 *
 * @see https://github.com/grpc/grpc-proto/blob/master/grpc/reflection/v1/reflection.proto
 */
export class ReflectionAnswers {
  readonly #files: ReadonlyMap<string, DescribedFile>;
  readonly #fileOf = new Map<string, DescribedFile>();
  readonly #services: Buffer;
  readonly #encoded = new Map<DescribedFile, Buffer>();

  /**
   * @param descriptors  a FileDescriptorSet
   * @param leftOut      a package whose file is hidden
   */
  constructor(descriptors: Buffer, leftOut?: string) {
    const files = readDescriptorSet(descriptors).filter((file) => file.package !== leftOut);
    this.#files = new Map(files.map((file) => [file.name, file]));
    for (const file of files) for (const symbol of file.symbols) this.#fileOf.set(symbol, file);
    this.#services = writeServices(files.flatMap(({ services }) => services));
  }

  /** @returns an encoded field of the response */
  to(question: ReflectionQuestion | undefined): Buffer {
    if (!question) return writeError(status.UNIMPLEMENTED, 'the request has no question');
    const { kind, name, number } = question;
    switch (kind) {
      case 'services':
        return this.#services;
      case 'file by name':
        return this.#describe(this.#files.get(name), `Proto file not found: ${name}`);
      case 'file of symbol':
        return this.#describe(this.#fileOf.get(name), `Symbol not found: ${name}`);
      case 'file of extension':
        return writeError(status.NOT_FOUND, `Extension not found for symbol ${name} at field ${number}`);
      case 'extensions of type':
        return writeError(status.NOT_FOUND, `Extensions not found for symbol ${name}`);
    }
  }

  #describe(file: DescribedFile | undefined, otherwise: string): Buffer {
    if (!file) return writeError(status.NOT_FOUND, otherwise);
    const known = this.#encoded.get(file);
    if (known) return known;
    const encoded = writeFiles(Array.from(this.#withImports(file), ({ bytes }) => bytes));
    this.#encoded.set(file, encoded);
    return encoded;
  }

  #withImports(file: DescribedFile): ReadonlySet<DescribedFile> {
    const found = new Set([file]);
    for (const { imports } of found) // visits files that it adds, too
      for (const name of imports) {
        const imported = this.#files.get(name);
        if (imported) found.add(imported);
      }
    return found;
  }
}
