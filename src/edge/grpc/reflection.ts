import { readFileSync } from 'node:fs';
import { packageRoot } from '../../base/package-root.ts';
import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Method } from '../../h2/grpc/method.ts';
import { type DescribedFile, readDescriptorSet } from '../../protobuf/described-files.ts';
import { createInterner } from '../../protobuf/interner.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';

/** Written by `npx tsx deploy/descriptors.ts`, since completing descriptors at run time blocks the event loop. */
const DESCRIPTORS = new URL('proto/descriptors.binpb', packageRoot);

const QUOTAS_PACKAGE = 'envoy.service.rate_limit_quota.v3';

/** Time after its client's last message at which a stream ends with OK. */
export const MAX_SILENCE_MS = 60_000;

/** Options of the reflection service. */
interface ReflectionOptions {
  /** Paths, one per version. */
  readonly paths: readonly string[];
  /** Starts a timer. Default: Node's timers. */
  readonly startTimer?: StartTimer | undefined;
  readonly hasQuotas: boolean;
}

/** The reflection service, in each version. */
export function reflectionMethods({ paths, startTimer, hasQuotas }: ReflectionOptions): readonly Method[] {
  const answers = new ReflectionAnswers(readFileSync(DESCRIPTORS), hasQuotas ? undefined : QUOTAS_PACKAGE);
  return paths.map((path) => reflectionMethod(path, answers, startTimer));
}

/** Ends a call whose client is silent for too long, since clients may never close a stream after their last request. */
const reflectionMethod = (
  path: string,
  answers: ReflectionAnswers,
  startTimer: StartTimer = startNodeTimer,
): Method<ReflectionRequest, ReflectionResponse> => ({
  kind: 'bidi stream',
  path,
  decode: readReflectionRequest,
  encode: writeReflectionResponse,
  handle(call) {
    const timer = startTimer(MAX_SILENCE_MS, () => call.end());
    call.onGone(() => timer.stop());
    return {
      message(request) {
        timer.restart();
        call.send({ request, answer: answers.to(request.question) });
      },
      end() {
        timer.stop();
        call.end();
      },
    };
  },
});

/** A one-shot timer. */
interface Timer {
  /** Restarts the full time. */
  restart(): void;
  stop(): void;
}

/** @param onElapsed  called after `ms` unless stopped */
export type StartTimer = (ms: number, onElapsed: () => void) => Timer;

/** Node's timers, which do not keep the process alive. */
const startNodeTimer: StartTimer = (ms, onElapsed) => {
  const timeout = setTimeout(onElapsed, ms).unref();
  return { restart: () => void timeout.refresh(), stop: () => clearTimeout(timeout) };
};

/**
 * The answers of the reflection service for services without extensions. Answers that describe files are encoded once.
 *
 * @see https://github.com/grpc/grpc-proto/blob/master/grpc/reflection/v1/reflection.proto
 */
class ReflectionAnswers {
  readonly #files: ReadonlyMap<string, DescribedFile>;
  readonly #fileOf = new Map<string, DescribedFile>();
  readonly #services: Buffer;
  readonly #encoded = new Map<DescribedFile, Buffer>();

  /**
   * @param descriptors  a FileDescriptorSet
   * @param leftOut      package whose file is hidden
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
    for (const { imports } of found) // also visits the files that it adds
      for (const name of imports) {
        const imported = this.#files.get(name);
        if (imported) found.add(imported);
      }
    return found;
  }
}

/** A query of the reflection service. */
interface ReflectionQuestion {
  readonly kind: 'file by name' | 'file of symbol' | 'file of extension' | 'extensions of type' | 'services';
  /** Name of the queried file, symbol or type. */
  readonly name: string;
  /** Number of an extension. */
  readonly number: number;
}

/** The messages of grpc/reflection/v1/reflection.proto; those of `v1alpha` have the same fields. */
interface ReflectionRequest {
  readonly host: string;
  readonly question: ReflectionQuestion | undefined;
  /** The encoded request. */
  readonly bytes: Buffer;
}
interface ReflectionResponse {
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

function readReflectionRequest(bytes: Buffer): ReflectionRequest {
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

function writeReflectionResponse({ request, answer }: ReflectionResponse): Buffer {
  writer.start(0);
  writer.textField(1, request.host);
  writer.bytesField(2, request.bytes);
  writer.append(answer);
  return written();
}

/** A FileDescriptorResponse. */
function writeFiles(files: readonly Buffer[]): Buffer {
  writer.start(0);
  const response = writer.begin(4);
  for (const file of files) writer.bytesField(1, file);
  writer.end(response);
  return written();
}

/** A ListServiceResponse. */
function writeServices(names: readonly string[]): Buffer {
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
function writeError(code: number, message: string): Buffer {
  writer.start(0);
  const response = writer.begin(7);
  writer.uint32Field(1, code);
  writer.textField(2, message);
  writer.end(response);
  return written();
}
