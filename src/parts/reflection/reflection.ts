import { readFileSync } from 'node:fs';
import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { packageRoot } from '../../base/package-root.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Method } from '../../h2/grpc/method.ts';
import { loadProtos } from '../../protobuf/load.ts';

/** Written by `npx tsx deploy/descriptors.ts`, since completing descriptors at run time blocks the event loop. */
const DESCRIPTORS = new URL('proto/descriptors.json', packageRoot);

/** Every server has them; all others are optional. */
const CORE_SERVICES = ['envoy.service.ratelimit.v3.RateLimitService', 'weir.v1.Batch', 'grpc.health.v1.Health'];

/** Time after its client's last message at which a stream ends with OK. */
export const MAX_SILENCE_MS = 60_000;

interface ReflectionOptions {
  /** Paths, one per version. */
  readonly paths: readonly string[];
  /** Starts a timer. Default: Node's timers. */
  readonly startTimer?: StartTimer | undefined;
  /** Paths of the methods of optional services. */
  readonly offered: readonly string[];
}

/**
 * The reflection service, in each version. Ends a call whose client is silent for too long, since clients may never
 * close a stream after their last request.
 *
 * @see https://github.com/grpc/grpc-proto/blob/master/grpc/reflection/v1/reflection.proto
 */
export function reflectionMethods({ paths, startTimer, offered }: ReflectionOptions): readonly Method[] {
  const described: readonly DescribedFile[] = JSON.parse(readFileSync(DESCRIPTORS, 'utf8'));
  const served = new Set([...CORE_SERVICES, ...offered.map((path) => path.split('/')[1] ?? '')]);
  const isServed = ({ services }: DescribedFile): boolean =>
    services.length === 0 || services.some((name) => served.has(name));
  const answer = createAnswers(described.filter(isServed), served);
  return paths.map((path) => reflectionMethod(path, answer, startTimer));
}

const reflectionMethod = (
  path: string,
  answer: (request: ReflectionRequest) => ReflectionAnswer,
  startTimer: StartTimer = startNodeTimer,
): Method<ReflectionRequest, object> => ({
  kind: 'bidi stream',
  path,
  decode: reflectionInfo.requestDeserialize,
  encode: reflectionInfo.responseSerialize,
  handle(call) {
    const timer = startTimer(MAX_SILENCE_MS, () => call.end());
    call.onGone(() => timer.stop());
    return {
      message(request) {
        timer.restart();
        call.send({ valid_host: request.host, original_request: request, ...answer(request) });
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

/** A file descriptor, which contains all .proto files of a package. */
export interface DescribedFile {
  readonly name: string;
  readonly package: string;
  /** Encoded descriptor, in base64. */
  readonly descriptor: string;
  /** Names of imported files. */
  readonly imports: readonly string[];
  /** Full names of its services. */
  readonly services: readonly string[];
  /** Full names of all its definitions, including messages, enums, services and their parts. */
  readonly symbols: readonly string[];
}

interface ReflectionRequest {
  readonly host: string;
  readonly file_by_filename?: string;
  readonly file_containing_symbol?: string;
  readonly file_containing_extension?: { readonly containing_type: string; readonly extension_number: number };
  readonly all_extension_numbers_of_type?: string;
  readonly list_services?: string;
}

type ReflectionAnswer =
  | { readonly file_descriptor_response: { readonly file_descriptor_proto: readonly Buffer[] } }
  | { readonly list_services_response: { readonly service: readonly { readonly name: string }[] } }
  | { readonly error_response: { readonly error_code: number; readonly error_message: string } };

const reflectionInfo = (
  loadProtos(['grpc/reflection/v1/reflection.proto'], 'numbers')[
    'grpc.reflection.v1.ServerReflection'
  ] as ServiceDefinition
).ServerReflectionInfo as MethodDefinition<ReflectionRequest, object>; // a service in the file, by its own types

/** The answers for services without extensions. */
function createAnswers(
  files: readonly DescribedFile[],
  served: ReadonlySet<string>,
): (request: ReflectionRequest) => ReflectionAnswer {
  const byName = new Map(files.map((file) => [file.name, file]));
  const bySymbol = new Map(files.flatMap((file) => file.symbols.map((symbol) => [symbol, file] as const)));
  const describe = (file: DescribedFile | undefined, otherwise: string): ReflectionAnswer => {
    if (!file) return refuse(status.NOT_FOUND, otherwise);
    const found = new Set([file]);
    // also visits the files that it adds
    for (const { imports } of found)
      for (const imported of imports.flatMap((name) => byName.get(name) ?? [])) found.add(imported);
    const encoded = Array.from(found, ({ descriptor }) => Buffer.from(descriptor, 'base64'));
    return { file_descriptor_response: { file_descriptor_proto: encoded } };
  };
  const service = files.flatMap(({ services }) =>
    services.filter((name) => served.has(name)).map((name) => ({ name })),
  );
  return (request) => {
    const { file_by_filename: name, file_containing_symbol: symbol, file_containing_extension: extension } = request;
    const { all_extension_numbers_of_type: type, list_services: list } = request;
    if (name !== undefined) return describe(byName.get(name), `Proto file not found: ${name}`);
    if (symbol !== undefined) return describe(bySymbol.get(symbol), `Symbol not found: ${symbol}`);
    if (extension)
      return refuse(
        status.NOT_FOUND,
        `Extension not found for symbol ${extension.containing_type} at field ${extension.extension_number}`,
      );
    if (type !== undefined) return refuse(status.NOT_FOUND, `Extensions not found for symbol ${type}`);
    if (list !== undefined) return { list_services_response: { service } };
    return refuse(status.UNIMPLEMENTED, 'the request has no question');
  };
}

const refuse = (code: status, message: string): ReflectionAnswer => ({
  error_response: { error_code: code, error_message: message },
});
