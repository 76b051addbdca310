import { ownCopy } from '../../h2/bounds/own-copy.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Method } from '../../h2/grpc/method.ts';
import { createInterner } from '../../protobuf/interner.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';
import type { Health, WatchedStatus } from '../rls/health.ts';
import type { OnCallFinished } from './grpc-server.ts';

const methodPath = (name: string): string => `/grpc.health.v1.Health/${name}`;

/**
 * `grpc.health.v1.Health`.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthMethods(health: Health, onCallFinished: OnCallFinished | undefined): readonly Method[] {
  const check: Method<HealthCheckRequest, HealthCheckResponse> = {
    kind: 'unary',
    path: methodPath('Check'),
    decode: readCheckRequest,
    encode: writeCheckResponse,
    handle({ service }, call) {
      const startedMs = performance.now();
      const found = health.status(service);
      if (found) {
        call.send({ status: found });
        call.end();
      } else call.fail(status.NOT_FOUND, 'unknown service');
      onCallFinished?.('Check', found ? status.OK : status.NOT_FOUND, performance.now() - startedMs);
    },
  };
  const list: Method<object, HealthListResponse> = {
    kind: 'unary',
    path: methodPath('List'),
    decode: () => ({}), // it has no fields
    encode: writeListResponse,
    handle(_request, call) {
      const statuses = Array.from(health.statuses(), ([name, found]) => [name, { status: found }] as const);
      call.send({ statuses: Object.fromEntries(statuses) });
      call.end();
    },
  };
  const watch: Method<HealthCheckRequest, HealthCheckResponse> = {
    kind: 'server stream',
    path: methodPath('Watch'),
    decode: readCheckRequest,
    encode: writeCheckResponse,
    handle({ service }, call) {
      call.onGone(health.watch(service, (now) => call.send({ status: now })));
    },
  };
  return [check, list, watch];
}

/** The messages of proto/grpc/health/v1/health.proto. */
interface HealthCheckRequest {
  readonly service: string;
}
interface HealthCheckResponse {
  readonly status: WatchedStatus;
}
interface HealthListResponse {
  readonly statuses: Readonly<Record<string, HealthCheckResponse>>;
}

const servingStatuses = { SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const satisfies Record<
  WatchedStatus,
  number
>;

const reader = new ProtoReader(createInterner());
const writer = new ProtoWriter();

function readCheckRequest(bytes: Buffer): HealthCheckRequest {
  let service = '';
  reader.open(bytes, 0, bytes.length);
  while (reader.at < bytes.length) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.LENGTH)) service = reader.text(bytes.length) ?? '';
    else reader.skip(tag);
  }
  return { service };
}

function writeCheckResponse({ status }: HealthCheckResponse): Buffer {
  writer.start(0);
  writer.uint32Field(1, servingStatuses[status]);
  return written();
}

function writeListResponse({ statuses }: HealthListResponse): Buffer {
  writer.start(0);
  for (const [name, { status }] of Object.entries(statuses)) {
    const entry = writer.begin(1);
    writer.textField(1, name);
    const response = writer.begin(2);
    writer.uint32Field(1, servingStatuses[status]);
    writer.end(response);
    writer.end(entry);
  }
  return written();
}

const written = (): Buffer => ownCopy(writer.bytes, 0, writer.length);
